"""Decoders whose answers may differ from the standard algorithm's; labelled so everywhere."""
