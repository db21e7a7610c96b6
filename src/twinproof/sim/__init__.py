"""The only room that imports MuJoCo: parameters, worlds, rollouts, rendering."""
