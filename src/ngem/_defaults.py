"""The numbers behind the default objective, for JAX and PyTorch alike."""

#: Strength of nGEM on the components, (weight_k F_k)^-power.
POWER = 0.5

#: What the logits receive.
LOGITS_RULE = "plain"

#: Added to weights before they are inverted.
DAMPING = 1e-3

#: Coordinates of the scale in which its Fisher information is taken.
COORDINATES = "log_scale"

#: How far beta-NLL weighs gradients by variance^beta.
BETA = 0.5

#: Strength over training, (start, end, share of training): from where steps are large and sure to
#: the plain likelihood, which then has the other half to itself.
POWER_SCHEDULE = (0.5, 0.0, 0.5)

#: Flattening of the weights in responsibilities under that schedule: roots at first, then none.
FLATTENING = 1.0

#: Coordinates of the scale under that schedule: components first find their places, then narrow.
SCHEDULED_COORDINATES = "variance"

#: The smallest scale that a network can express.
SCALE_FLOOR = 1e-6

#: Coordinates of a scale in which its Fisher information can be taken. The paper takes the scale
#: itself. In its logarithm, nearly a network's raw output, scales move fastest where small;
#: in the variance slowest, so that components find their places before they narrow. Above one,
#: "variance" goes on as the logarithm: there is nothing to wait for, and its square has no bound.
COORDINATE_CHOICES = ("scale", "log_scale", "variance")
