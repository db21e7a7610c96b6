"""Source files -> Recording. One file for each source format; the rig says what their names and numbers mean."""
