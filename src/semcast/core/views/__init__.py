"""Membership that changes: views, agreement on them, and order inside them."""
