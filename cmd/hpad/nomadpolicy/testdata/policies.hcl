scaling "workers" {
  enabled = true
  min     = 1
  max     = 100

  policy {
    cooldown             = "10m"
    cooldown_on_scale_up = "2m"
    evaluation_interval  = "1m"
    on_check_error       = "fail"

    check "allocated" {
      source   = "prometheus"
      query    = "sum(allocated) * 100 / (sum(allocated) + sum(unallocated))"
      on_error = "ignore"

      strategy "target-value" {
        target         = "80"
        threshold      = 0.05
        max_scale_up   = 4
        max_scale_down = 1
      }
    }

    target "aws-asg" {
      aws_asg_name        = "my-group"
      node_class          = "big"
      node_drain_deadline = "15m"
    }
  }
}

scaling "disabled" {
  enabled = false
  min     = 2
  max     = 9

  policy {
    check "night" {
      strategy "fixed-value" {
        value = "4"
      }
    }

    target "nomad-target" {
      Job   = "web"
      Group = "api"
    }
  }
}

scaling "agent" {
  max = 3

  policy {
    check "max" {
      source = "nomad_apm"
      query  = "taskgroup_max_cpu/api/web@default"
      strategy "target-value" {
        target = 80
      }
    }
    check "later" {
      source              = "prometheus"
      query               = "q"
      query_window_offset = "1m"
      group               = "g"
      strategy "target-value" {
        target = 0
      }
    }
    target "digitalocean" {
      name = "x"
    }
  }
}
