"""The data pipeline on Spark: functions from DataFrame to DataFrame, and a lake they read.

Nothing here needs more of a session than Spark Connect offers.
"""
