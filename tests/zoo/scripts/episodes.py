"""Reinforcement learning: one update per episode, episodes of different lengths."""

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
losses = []
for _ in range(30):
    state, odds, reward = torch.zeros(3), [], 0.0
    for _ in range(int(torch.randint(3, 12, ()))):
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        odds.append(choice.log_prob(action))
        reward += float(action)
        state = torch.randn(3)
    optimizer.zero_grad()
    loss = -torch.stack(odds).sum() * reward / 10
    loss.backward()
    optimizer.step()
    losses.append(loss)
tell(losses, policy, optimizer)
