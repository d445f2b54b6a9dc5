"""What applications send: streams to drive a producer with.

A workload is an iterator of `Update`s, in the order in which they are multicast.  When they
are offered is a separate iterator of floats, the *arrivals*: its n-th value is the gap in
seconds between the offers of messages n − 1 and n (the first: after the start).  `zip` of both
drives a producer.  All randomness is one `random.Random` passed in: same seed, same stream.
"""
