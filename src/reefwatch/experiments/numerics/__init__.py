"""Active parts of the numerics contract: is a run resumed as it was, which environment leaves?"""
