"""From trials and recordings of two worlds to what differs between them, and how sure that is."""
