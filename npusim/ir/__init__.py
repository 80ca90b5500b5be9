"""The vocabulary of every room above: tensor types, boxes, affine accesses and descriptions of work."""
