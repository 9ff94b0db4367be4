"""The page Collections: answers kept with a name, a status and notes."""
