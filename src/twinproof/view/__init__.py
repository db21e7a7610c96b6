"""The viewer in the browser: reads folders on disk, and is handed what simulates."""
