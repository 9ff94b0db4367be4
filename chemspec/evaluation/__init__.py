"""Are the answers right, and the same as the reference's?"""
