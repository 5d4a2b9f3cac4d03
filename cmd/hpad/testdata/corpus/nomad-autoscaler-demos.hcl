scaling "name" {
  enabled = true
  min     = 1
  max     = 2
  policy {
    cooldown            = "2m"
    evaluation_interval = "1m"
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    target "aws-asg" {
      dry-run             = "false"
      aws_asg_name        = "sum(metric)"
      node_class          = "name"
      node_drain_deadline = "5m"
    }
  }
}
# ---
scaling "name" {
  enabled = true
  min     = 1
  max     = 2
  policy {
    cooldown            = "2m"
    evaluation_interval = "1m"
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    target "azure-vmss" {
      resource_group      = "sum(metric)"
      vm_scale_set        = "name"
      node_class          = "name"
      node_drain_deadline = "5m"
    }
  }
}
# ---
scaling "name" {
  enabled = true
  min     = 0
  max     = 5
  policy {
    cooldown            = "1m"
    evaluation_interval = "10s"
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "pass-through" {}
    }
    target "aws-asg" {
      aws_asg_name           = "sum(metric)"
      datacenter             = "name"
      node_drain_deadline    = "1h"
      node_selector_strategy = "name"
    }
  }
}
# ---
scaling "name" {
  enabled = true
  min     = 1
  max     = 2
  policy {
    cooldown            = "2m"
    evaluation_interval = "1m"
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    check "name" {
      source = "prometheus"
      query  = "sum(metric)"
      strategy "target-value" {
        target = 70
      }
    }
    target "gce-mig" {
      project             = "sum(metric)"
      %{if mig_type == "name"}
      region              = "sum(metric)"
      %{else}
      zone                = "sum(metric)"
      %{endif}
      mig_name            = "sum(metric)"
      node_class          = "name"
      node_drain_deadline = "5m"
    }
  }
}
# ---
job "web" {
  group "app" {
    scaling {
      enabled = true
      min     = 1
      max     = 20
      policy {
        cooldown            = "1m"
        evaluation_interval = "30s"
        check "avg_sessions" {
          source = "prometheus"
          query  = "sum(metric)"
          strategy "target-value" {
            target = 10
          }
        }
      }
    }
  }
}
# ---
      scaling "name" {
        policy {
          cooldown            = "1m"
          evaluation_interval = "1m"
          check "name" {
            strategy "name" {
              percentile = "95"
            }
          }
        }
      }
# ---
      scaling "name" {
        policy {
          cooldown            = "1m"
          evaluation_interval = "1m"
          check "name" {
            strategy "name" {}
          }
        }
      }
# ---
job "web" {
  group "app" {
    scaling {
      enabled = false
      min     = 1
      max     = 20
      policy {
        cooldown = "20s"
        check "avg_sessions" {
          source = "prometheus"
          query  = "sum(metric)"
          strategy "target-value" {
            target = 5
          }
        }
      }
    }
  }
}
