"""Anything that acts: networks, ONNX graphs, scripts, servers, behind one interface, with limits that are kept."""
