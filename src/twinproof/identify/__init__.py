"""From a twin and recorded episodes to what the parameters are, and how sure that is."""
