"""Measurements of this and other systems: `semcast bench`."""
