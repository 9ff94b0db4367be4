"""The page Step through."""
