"""From calibration episodes to a Twin: so far a scene that the user states."""
