"""From a posterior and validation episodes to ranges: only what stays uncertain, each with its source and reason."""
