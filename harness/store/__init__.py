"""The only place that touches the disk: paths, atomic writes, canonical JSON, digests, framed logs.

Clock and randomness live here too, so that each has one owner and one fake.
"""
