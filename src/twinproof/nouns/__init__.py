"""What exists: the eight nouns of twinproof, their laws, and how they lie on disk. Nothing here simulates."""
