"""What a policy is asked to do, in batched worlds: observation, action, reward, success, start; scripted experts."""
