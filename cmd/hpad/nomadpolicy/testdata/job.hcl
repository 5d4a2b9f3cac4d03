variable "n" { default = 2 }
job "web" {
  datacenters = ["dc1"]
  group "api" {
    count = 3
    scaling {
      enabled = true
      min     = 2
      max     = 20
      policy {
        cooldown            = "1m"
        evaluation_interval = "10s"
        check "rps" {
          source = "prometheus"
          query  = "sum(rate(http_requests_total{job=\"web\"}[1m]))/scalar(nomad_nomad_job_summary_running{exported_job=\"web\"})"
          strategy "target-value" {
            target = 70
            max_scale_up = 4
          }
        }
        check "cpu" {
          query = "avg_cpu-allocated"
          strategy "target-value" {
            target = 80
          }
        }
        check "floor" {
          strategy "fixed-value" { value = "3" }
        }
      }
    }
    task "x" { driver = "docker" }
  }
  group "worker" {
    scaling {
      min = 0
      max = var.n
      policy {
        check "high" {
          source = "prometheus"
          query = "queue_${var.n}"
          query_window = "5m"
          strategy "threshold" {
            upper_bound = 100
            lower_bound = 70
            delta = 1
            within_bounds_trigger = 3
          }
        }
        check "pass" {
          source = "prometheus"
          query = "wanted"
          strategy "pass-through" {}
        }
      }
    }
  }
  group "plain" {
 scaling {
 max = 3 
}
}
}
