"""Gaussian splats drawn and differentiated: a numba engine on the CPU, gsplat on a GPU, a dense reference for both.

The way of one picture, and the file that holds each step:

    project.py  volumes to ellipses     surfels.py  discs to homographies      (project_back.py, surfels_back.py)
    tiles.py    depth sort, then a list of splats for every 16 × 16 tile
    blend.py    ellipses over pixels    discs.py    discs over pixels          forward and backward in each
    engine.py   the steps in order, on threads, for one camera or a batch
    layered.py        many worlds at once: what stands is drawn once, what moves is laid over it (worlds.py: on a GPU)
    torch_render.py   the same as a torch function; reference.py: the dense float64 oracle; cuda.py: gsplat
"""
