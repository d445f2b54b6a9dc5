"""What the papers promise, executable: relation, properties as monitors, abstract algorithms."""
