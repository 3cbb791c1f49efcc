"""Contenders of the bench `gpu`."""
