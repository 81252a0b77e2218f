"""APIGen-MT: simulated dialogs of customers and agents in two domains of τ-bench, retail and airline.

Origin: `Salesforce/APIGen-MT-5k` (non-commercial license). ShareGPT's shape: `conversations` with the roles
human, gpt, function_call and observation, `tools` as JSON in a string, the domain's policy in `system`. Its
domains are those of a benchmark: see `envace leakage --against tau2`.
"""

from envace.imports.sharegpt import convert

__all__ = ["convert"]
