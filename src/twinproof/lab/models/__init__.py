"""MJCF of the lab's robots, objects and furniture, written from one table of values: the nominal ones or the true."""
