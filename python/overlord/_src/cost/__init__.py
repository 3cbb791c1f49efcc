"""Cost models: the values, Python costs, measurements and how coefficients are fitted to them.

`overlord.cost` is the public face.
"""
