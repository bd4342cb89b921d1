"""Layouts that other projects write their data in, one reader each, chosen by what a file holds."""
