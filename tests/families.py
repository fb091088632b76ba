"""What a tiny model of each family is told, beyond what they have in common: 2 to 4 layers, hidden size 64.

The key is a model file of mlx_lm; a wrapper's ``text_config`` is filled up with the common part.
"""

from typing import Any

_DEEPSEEK: dict[str, Any] = {
    "num_key_value_heads": 4, "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 32,
    "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 4,
    "n_shared_experts": 1, "num_experts_per_tok": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "attention_bias": False,
}  # fmt: skip
_YARN: dict[str, Any] = {
    "type": "yarn", "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
}  # fmt: skip
_MOE: dict[str, Any] = {
    "num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "moe_intermediate_size": 32, "norm_topk_prob": True,
}  # fmt: skip
_LINEAR: dict[str, Any] = {
    "num_hidden_layers": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
    "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}  # fmt: skip

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    # Qwen2 has no head_dim of its own: hidden_size / num_attention_heads.
    "qwen2": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "qwen3": {},
    "qwen3_moe": _MOE,
    "qwen3_next": _LINEAR | {
        "num_experts": 0, "num_experts_per_tok": 1, "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 32, "mlp_only_layers": [], "moe_intermediate_size": 32,
        "partial_rotary_factor": 1.0,
    },
    "qwen3_5": {
        "text_config": _LINEAR | {
            "rope_parameters": {"type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
        }
    },
    "gemma2": {"query_pre_attn_scalar": 32},
    "gemma3_text": {"sliding_window": 16, "sliding_window_pattern": 3},
    "gemma3": {"text_config": {"sliding_window": 16, "sliding_window_pattern": 3}},
    "gemma3n": {
        "text_config": {
            "num_hidden_layers": 4, "num_kv_shared_layers": 2, "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "vocab_size_per_layer_input": 288, "hidden_size_per_layer_input": 16,
            "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0,
            "activation_sparsity_pattern": [0.0, 0.5, 0.0, 0.0], "altup_num_inputs": 2,
            "altup_coef_clip": 120.0, "altup_correct_scale": True, "altup_active_idx": 0, "laurel_rank": 8,
        }
    },
    # Two layers read the rows of earlier ones; the global heads are twice as wide.
    "gemma4_text": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "sliding_window": 16, "num_key_value_heads": 1,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "global_head_dim": 64,
        "vocab_size_per_layer_input": 288, "hidden_size_per_layer_input": 16,
    },
    "gemma4": {
        "text_config": {
            "model_type": "gemma4_text", "num_hidden_layers": 2, "num_kv_shared_layers": 0,
            "sliding_window": 16, "num_key_value_heads": 1, "global_head_dim": 64,
            "layer_types": ["sliding_attention", "full_attention"],
            "vocab_size_per_layer_input": 288, "hidden_size_per_layer_input": 16,
        }
    },
    "gpt_oss": {
        "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 10000,
    },
    "mimo_v2_flash": {
        "num_hidden_layers": 2, "hybrid_layer_pattern": [1, 0], "moe_layer_freq": [0, 0],
        "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False,
        "sliding_window_size": 16, "moe_intermediate_size": 32, "n_shared_experts": None,
        "n_routed_experts": 4, "num_experts_per_tok": 1, "routed_scaling_factor": None,
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "n_group": 1,
        "topk_group": 1, "layernorm_epsilon": 1e-5, "swa_rope_theta": 10000.0,
        "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "v_head_dim": 16, "swa_head_dim": 32,
        "swa_v_head_dim": 16, "partial_rotary_factor": 0.5,
    },
    "deepseek_v2": _DEEPSEEK | {"q_lora_rank": None, "rope_scaling": _YARN},
    "deepseek_v3": _DEEPSEEK | {"num_hidden_layers": 2, "first_k_dense_replace": 2},
    "kimi_k25": {
        "text_config": _DEEPSEEK | {
            "model_type": "deepseek_v3", "num_hidden_layers": 2, "first_k_dense_replace": 2
        }
    },
    "glm4_moe_lite": _DEEPSEEK | {"num_hidden_layers": 2, "first_k_dense_replace": 2},
    "deepseek_v32": _DEEPSEEK | {
        "num_hidden_layers": 2, "first_k_dense_replace": 2, "index_head_dim": 32, "index_n_heads": 2,
        "index_topk": 16,
    },
    "kimi_linear": {
        "num_hidden_layers": 2, "model_max_length": 4096, "num_experts": 0, "moe_intermediate_size": 32,
        "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 32,
        "first_k_dense_replace": 2, "num_key_value_heads": 4,
        "linear_attn_config": {
            "kda_layers": [1], "full_attn_layers": [2], "num_heads": 2, "head_dim": 32,
            "short_conv_kernel_size": 4,
        },
    },
    "minicpm3": {
        "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 32,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "dim_model_base": 64, "scale_depth": 1.4,
        "scale_emb": 12,
        "rope_scaling": {"long_factor": [1.0] * 8, "original_max_position_embeddings": 4096},
    },
    "llama4": {
        "text_config": {
            "num_hidden_layers": 4, "attention_bias": False, "attention_chunk_size": 16,
            "interleave_moe_layer_step": 5, "intermediate_size_mlp": 96, "num_experts_per_tok": 1,
            "num_local_experts": 2, "rope_scaling": None, "use_qk_norm": True,
        }
    },
    "falcon_h1": {
        "num_hidden_layers": 2, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16,
        "mamba_d_state": 8, "mamba_chunk_size": 16,
    },
    "baichuan_m1": {
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "sliding_window": 16,
        "sliding_window_layers": [0], "conv_window": 2, "tie_word_embeddings": False,
    },
    "jamba": {
        "num_hidden_layers": 2, "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1,
        "expert_layer_period": 4, "mamba_d_conv": 4, "mamba_d_state": 8, "mamba_expand": 2,
        "num_experts": 2, "num_experts_per_tok": 1,
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "-"], "attention_bias": False, "mamba_num_heads": 4,
        "mamba_head_dim": 16, "mamba_proj_bias": False, "ssm_state_size": 8, "conv_kernel": 4,
        "n_groups": 1, "mlp_bias": False, "layer_norm_epsilon": 1e-5, "use_bias": False,
        "use_conv_bias": True,
    },
    "granitemoehybrid": {
        "num_hidden_layers": 2, "layer_types": ["mamba", "attention"], "attention_bias": False,
        "embedding_multiplier": 1.0, "attention_multiplier": 0.18, "logits_scaling": 1.0,
        "residual_multiplier": 1.0, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_proj_bias": False,
        "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_conv_bias": True,
    },
    "lfm2": {
        "num_hidden_layers": 2, "norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3, "block_dim": 64,
        "block_ff_dim": 96, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False, "layer_types": ["conv", "full_attention"],
    },
    "mamba": {
        "state_size": 8, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "time_step_rank": 4,
    },
    "mamba2": {
        "num_hidden_layers": 2, "num_heads": 4, "head_dim": 32, "state_size": 8, "conv_kernel": 4,
        "n_groups": 1, "use_bias": False, "use_conv_bias": True, "layer_norm_epsilon": 1e-5,
        "time_step_limit": [0.0, 100.0], "time_step_rank": 4,
    },
    "phi3": {"head_dim": 16},
    "glm4": {"attention_bias": False, "partial_rotary_factor": 0.5},
    "cohere2": {
        "num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 16, "sliding_window_pattern": 3
    },
    "mistral3": {"text_config": {"model_type": "llama"}},
    # Its attention calls MLX's kernel itself.
    "plamo2": {
        "num_hidden_layers": 2, "hidden_size_per_head": 32, "mamba_num_heads": 4, "mamba_d_state": 8,
        "mamba_step": 2,
    },
    # Runs its layers twice, the second time in a window: four slots for two layers.
    "iquestloopcoder": {"num_hidden_layers": 2, "loop_window_size": 16},
    # Its last layer reads the rows of the last slot again.
    "afm7": {
        "hidden_dim": 64, "num_layers": 3, "num_kv_reuse_layers": 1, "num_heads": 2, "num_kv_heads": 1,
    },
}  # fmt: skip
