"""The numbers behind the default objective and the guard, for JAX and PyTorch alike."""

#: Strength of nGEM on the components, (weight_k F_k)^-power.
POWER = 0.5

#: What the logits receive.
LOGITS_RULE = "plain"

#: Added to weights before they are inverted.
DAMPING = 1e-3

#: Coordinates of the scale in which its Fisher information is taken.
COORDINATES = "log_scale"

#: Exponent of beta-NLL, which multiplies gradients by variance^beta.
BETA = 0.5

#: Strength over training, (start, end, fraction of training): large, well-scaled steps at first,
#: then the plain likelihood.
POWER_SCHEDULE = (0.5, 0.0, 0.1)

#: Flattening of the weights in responsibilities under that schedule: square roots at first.
FLATTENING = 1.0

#: Coordinates of the scale under that schedule: components find their places, then narrow.
SCHEDULED_COORDINATES = "variance"

#: The smallest scale that a network can express.
SCALE_FLOOR = 1e-6

#: Coordinates of a scale in which its Fisher information can be taken. The paper uses the scale
#: itself. In its logarithm, nearly a network's raw output, small scales move fastest. In the
#: variance they move slowest, so that components find their places before they narrow. Above one,
#: "variance" continues as the logarithm, because the square would have no bound.
COORDINATE_CHOICES = ("scale", "log_scale", "variance")

#: Beyond the range of the training rows a feature still moves by at most this much, in standard
#: deviations.
CLIP_MARGIN = 1.0

#: At this distance from the range, in standard deviations, half of the networks' weight is gone.
HALF_TRUST = 3.0
