"""A practice reality: benches that play a real robot. No stage imports it; its truth is read by the scoring alone."""
