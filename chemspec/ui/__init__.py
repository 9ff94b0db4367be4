"""What the pages are made of: widgets that draw plain values, and the engine shared by all visitors."""
