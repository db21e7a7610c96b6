"""From everything that was done to one artifact that a stranger can check, and a report that people can read."""
