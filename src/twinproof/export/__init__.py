"""From a twin to the formats that other tools read: MJCF, URDF, USDZ, GLB, PLY, SPZ."""
