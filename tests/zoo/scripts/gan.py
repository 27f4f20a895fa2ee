"""Two optimizers, the critic stepped five times as often as the generator."""

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
make_steps = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.9))
judge_steps = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
bce = nn.BCEWithLogitsLoss()
losses = []
for _ in range(12):
    for _ in range(5):
        real, fake = torch.randn(8, 2) + 3, maker(torch.randn(8, 4)).detach()
        loss = bce(critic(real), torch.ones(8, 1)) + bce(critic(fake), torch.zeros(8, 1))
        judge_steps.zero_grad()
        loss.backward()
        judge_steps.step()
        losses.append(loss)
    make_steps.zero_grad()
    loss = bce(critic(maker(torch.randn(8, 4))), torch.ones(8, 1))
    loss.backward()
    make_steps.step()
    losses.append(loss)
tell(losses, maker, critic, make_steps, judge_steps)
