"""From a twin and its ranges to policies that need nothing the real robot cannot measure."""
