"""Learn two crossing sine waves with an ordinary PyTorch loop; one option selects the loss.

python examples/torch_two_sinusoids.py --loss ngem
python examples/torch_two_sinusoids.py --loss nll
"""

import argparse

import torch
from torch import nn

from ngem.datasets import two_sinusoids
from ngem.torch import MixtureDensityHead, NGEMLoss, PowerSchedule, nll_loss


def main() -> None:
    """Train, then print the likelihood and how evenly both components are used."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", choices=["nll", "ngem"], default="ngem")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)

    data = two_sinusoids(2000, seed=arguments.seed)
    x, y = (torch.tensor(part, dtype=torch.float32) for part in data)
    x = (x - x.mean()) / x.std()
    model = nn.Sequential(
        nn.Linear(1, 128),
        nn.GELU(),
        nn.Linear(128, 128),
        nn.GELU(),
        MixtureDensityHead(128, n_components=2, dim=1),
    )
    optimizer = torch.optim.Adam(model.parameters(), arguments.learning_rate)
    schedule = PowerSchedule(arguments.steps)  # from half strength to none, as in the estimator
    criterion = NGEMLoss(power=schedule) if arguments.loss == "ngem" else nll_loss

    for step in range(arguments.steps):
        rows = torch.randint(len(x), (128,))
        loss = criterion(*model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, arguments.steps // 6) == 0:
            print(f"step {step + 1}: negative log-likelihood {loss.item():.3f}")

    with torch.no_grad():
        parameters = model(x)
        weights = torch.softmax(parameters.logits, -1)
        entropy = -(weights * weights.clamp_min(1e-12).log()).sum(-1).mean().item()
        print(f"{arguments.loss}: negative log-likelihood {nll_loss(*parameters, y).item():.3f}")
        print(f"{arguments.loss}: entropy of weights {entropy:.3f} (two equal waves: 0.693)")


if __name__ == "__main__":
    main()
