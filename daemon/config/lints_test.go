package config

import (
	"fmt"
	"strings"
	"testing"
)

// lintCases contains, for each lint of a metric, a part of its warning, the key that it is reported
// for, the rest of the metric, and queries that cause exactly this warning or none.
var lintCases = map[string]struct {
	warning, keys string
	warns, silent []string
}{
	"total with value": {
		warning: "value = 100: the query is a total", keys: `value = 100`,
		warns: []string{
			`sum(rate(http_requests_total{deployment="my-deployment"}[2m])) or vector(0)`,
			`vector(0) or sum(rate(nginx_ingress_controller_requests[1m]))`,
			`clamp_min(sum(rabbitmq_queue_messages_ready{queue="jobs"}), 1)`,
			`ceil(sum(kafka_consumergroup_lag{consumergroup="workers"}) / 100)`,
			`-(-sum(redis_list_length{key="celery"}))`,
			`max_over_time(sum(sidekiq_queue_size{queue="default"})[5m:1m])`,
			`label_replace(sum(rate(http_requests_total[1m])), "app", "$1", "job", "(.*)")`,
			`max(sum by (instance) (rabbitmq_queue_messages))`,
			`aws_sqs_approximate_number_of_messages_visible_average{queue_name="jobs"}`,
			`max(aws_sqs_approximate_number_of_messages_visible_maximum)`,
			`sum(rate(http_requests_total[1m] offset 1h)) - sum(rate(http_requests_total{code="500"}[1m] offset 1h))`,
			`avg_over_time(rabbitmq_queue_messages_ready[5m])`,
			`sum(sum by (queue) (celery_queue_length))`,
			`sum(rate(a_total[1m])) + sum(rate(b_total[1m]))`,
			`scalar(sum(queue_depth))`,
			`sum(queue_depth) > 5 or vector(0)`,
			`sum(rate(container_cpu_usage_seconds_total[5m]))`,
			`avg(worker_busy) * count(worker_busy)`,
			`sum(queue_depth) and on () (max(up) == 1)`,
			`topk(1, sum by (job) (rate(http_requests_total[5m])))`,
			`sum(rate(http_request_duration_seconds_count[5m]))`,
			`sum(deriv(http_requests_total[5m]))`,
			`deriv(sum(rate(http_requests_total[1m]))[10m:1m])`,
			`sum(idelta(http_requests_total[1m])) or vector(0)`,
			`sum(delta(jobs_finished_total[5m]))`,
			`sgn(sum(rate(http_requests_total[1m])))`,
			`exp(sum(queue_depth) / 100)`,
			`ln(sum(rate(http_requests_total[1m])))`,
			`log2(clamp_min(sum(redis_list_length), 1))`,
			`sqrt(sum(rate(http_requests_total[1m])) or vector(0))`,
			`sum(rate(http_requests_total[1m])) - sum(rate(http_requests_total{path="/health"}[1m]))`,
			`sum(rate(http_requests_total{app="a"}[1m])) - sum(rate(http_requests_total{code="500",app="a"}[1m])) or vector(0)`,
			`sum(rate(http_requests_total[1m])) - sum(rate(http_errors_total[1m]))`,
			`clamp_min(sum(increase(requests_total[5m])) - sum(increase(requests_cached_total[5m])), 0)`,
			`sum(http_requests_started_total) - sum(http_requests_finished_total)`,
			`sum(http_connections_active) - sum(http_connections_idle)`,
			`sum(rabbitmq_queue_messages) - sum(rabbitmq_queue_messages_unacknowledged)`,
			`sum(worker_slots) - sum(worker_slots_free)`,
			`count_values("version", build_version)`,
			`sum(count_values("state", worker_state))`,
			`max(count_values without (instance) ("state", worker_state))`,
			`job:http_requests:sum_rate5m`,
			`sum(job:http_requests:rate5m{job="web"})`,
			`job:http_requests:rate5m or vector(0)`,
			`sum(instance:http_requests:rate5m)`,
			`cluster:grpc_calls:sum_irate`,
			`sum(instance_path:http_requests_total:rate5m{path="/"})`,
			`job:http_inprogress_requests:sum`,
			`max(:queue_messages:sum)`,
			`max_over_time(job:http_requests:sum_rate5m[10m])`,
			`instance:http_requests:rate5m`,
			`node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate`,
			`rate(http_requests_total{job="web"}[1m]) or vector(0)`,
			`deriv(http_requests_total[5m])`,
			`sum(rate(http_requests_total[1m])) - sum(rate(http_requests_static_total[1m]))`,
		},
		silent: []string{
			`sum(deriv(queue_depth[5m]))`,
			`deriv(sum(memory_bytes)[5m:1m])`,
			`idelta(avg(queue_depth)[5m:1m])`,
			`exp(avg(ln(worker_busy)))`,
			`exp(-sum(queue_depth))`,
			`sqrt(avg(rate(http_requests_total[1m])))`,
			`sgn(avg(worker_busy) - 5)`,
			`sin(sum(queue_depth))`,
			`stddev(rate(http_requests_total[1m]))`,
			`sum(changes(http_requests_total[5m]))`,
			`sum(rate(jobs_total{op="add"}[1m])) - sum(rate(jobs_total{op="done"}[1m]))`,
			`sum(rate(events_total{direction="in"}[1m])) - sum(rate(events_total{direction="out"}[1m]))`,
			`sum(rate(received_total[1m])) - sum(rate(handled_total[1m]))`,
			`sum(queue_limit) - sum(queue_length)`,
			`sum(pool_size) - sum(pool_used)`,
			`sum(connections_max - connections_active)`,
			`sum(worker_slots) - sum(worker_slots_used)`,
			`sum(up) - sum(up == 1)`,
			`avg(http_connections_active) - avg(http_connections_idle)`,
			`count_values("latency", http_request_duration_seconds)`,
			`rate(http_requests_total{instance="10.0.0.1:80"}[1m])`,
			`topk(1, rate(http_requests_total[1m]))`,
			`sum(rate(http_requests_total[1m])) - sum(rate(http_requests_finished_total[1m]))`,
			`worker_busy`,
			`avg(instance:http_requests:rate5m)`,
			`job:http_requests:avg_rate5m`,
			`job:http_request_errors_per_requests:ratio_rate5m`,
			`job:http_response_size_bytes:mean5m`,
			`cluster_quantile:apiserver_request_size:histogram_quantile`,
			`job:http_requests:custom`,
			`max(node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate)`,
			`namespace:cpu:active:kube_requests`,
			`sum(rate(http_requests_total[2m])) / count(up{job="web"}) or vector(0)`,
			`avg(rate(http_requests_total[2m])) or vector(0)`,
			`max_over_time(avg(worker_utilization)[5m:1m])`,
			`clamp_max(histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m]))), 10)`,
			`(sum(rate(x_seconds_sum[1m])) / sum(rate(x_seconds_count[1m]))) * 1`,
			`1 - avg(rate(node_cpu_seconds_total{mode="idle"}[5m]))`,
			`sum(rate(queue_in_total[5m])) - sum(rate(queue_out_total[5m]))`,
			`100 - sum(pool_free)`,
			`time() - max(queue_oldest_message_timestamp)`,
			`100 * sum(used_slots) / sum(slots)`,
			`max(kafka_consumergroup_lag_seconds)`,
		},
	},
	"difference with value": {
		warning: "value = 100: the query is a difference of two totals", keys: `value = 100`,
		warns: []string{
			`sum(rate(a_total[1m])) - sum(rate(b_total[1m]))`,
			`rate(a_total[1m]) - rate(b_total[1m])`,
			`rate(a[1m]) - rate(b[1m])`,
			`sum(rate(a_total[1m]) - rate(b_total[1m])) or vector(0)`,
			`-sum(rate(b_total[1m])) + sum(rate(a_total[1m]))`,
			`sum(rate(a_total[1m])) + -1 * sum(rate(b_total[1m]))`,
			`sum(rate(frontend_requests_total[5m])) - sum(rate(backend_requests_total[5m]))`,
			`sum(irate(nginx_http_requests_total[1m])) - on () sum(irate(varnish_main_client_req[1m]))`,
			`clamp_min(sum(increase(a_total[5m])) - sum(increase(b_total[5m])), 0)`,
			`max_over_time((sum(rate(a_total[1m])) - sum(rate(b_total[1m])))[5m:1m])`,
			`60 * (sum(rate(jobs_total[5m])) - sum(rate(batches_total[5m])))`,
			`sum(sum by (job) (rate(a_total[1m])) - sum by (job) (rate(b_total[1m])))`,
			`sum(rate(api_calls[5m])) - scalar(sum(rate(page_views[5m]) * 2))`,
			`max(sum(rate(a_total[1m])) - sum(rate(b_total[1m])))`,
		},
		silent: []string{
			`sum(rate(received_total[1m])) - sum(rate(handled_total[1m]))`,
			`-sum(rate(handled_total[1m])) + sum(rate(requests_total[1m]))`,
			`sum(rate(jobs_created_total[5m])) - sum(rate(workers_iterations_total[5m]))`,
			`sum(rate(orders_total[5m])) - sum(rate(orders_acknowledged_total[5m]))`,
			`sum(rate(node_network_receive_bytes_total[5m])) - sum(rate(node_network_transmit_bytes_total[5m]))`,
			`sum(rate(events_total{op="add"}[1m])) - sum(rate(events_total{op="done"}[1m]))`,
			`sum(rate(http_requests_total[5m])) - sum(rate(http_requests_total[5m] offset 1d))`,
			`sum(rate(http_requests_total[5m])) - 2 * sum(rate(http_requests_total{code="500"}[5m] offset 1w))`,
			`avg(rate(a_total[1m]) - rate(b_total[1m]))`,
			`max(rate(a_total[1m]) - rate(b_total[1m]))`,
			`avg(rate(a_total[1m])) - avg(rate(b_total[1m]))`,
			`rate(a_total{instance="10.0.0.1:80"}[1m]) - rate(b_total[1m])`,
			`sum(queue_depth) + 60 * (sum(rate(a_total[1m])) - sum(rate(b_total[1m])))`,
			`(sum(rate(a_total[1m])) - sum(rate(b_total[1m]))) / sum(rate(a_total[1m]))`,
			`(sum(rate(a_total[1m])) - sum(rate(b_total[1m]))) / count(up)`,
			`sum(rate(a_total[1m])) / sum(rate(b_total[1m]))`,
			`sum(rate(a_total[1m])) - 5 * avg(worker_busy)`,
			`sum(deriv(queue_depth[5m])) - sum(deriv(other_depth[5m]))`,
		},
	},
	"average with average_value": {
		warning: "average_value = 5: the query is already an average", keys: `average_value = 5`,
		warns: []string{
			`avg(rate(http_requests_total[2m])) or vector(0)`,
			`round(avg(queue_depth), 1)`,
			`avg_over_time(avg(worker_busy)[5m:1m])`,
			`sum(queue_depth) / scalar(count(up{job="worker"}))`,
			`(sum(queue_depth) / count(up{job="worker"})) or vector(0)`,
			`label_replace(quantile(0.9, worker_busy), "a", "b", "c", "d")`,
			`clamp_min(1000 * histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m]))), 0)`,
			`max(irate(http_requests_total[1m]))`,
			`-(-avg(worker_busy))`,
			`topk(1, avg by (job) (worker_busy))`,
			`histogram_avg(sum(rate(http_request_size[5m])))`,
			`sum(avg(worker_busy))`,
			`job:http_requests:avg_rate5m`,
			`max(instance:http_requests:rate5m)`,
			`job:http_request_errors_per_requests:ratio_rate5m or vector(0)`,
			`cluster:http_request_size:p99`,
			`exp(avg(ln(worker_busy)))`,
		},
		silent: []string{
			`sum(rate(http_requests_total[2m])) or vector(0)`,
			`avg by (queue) (queue_depth)`,
			`max(redis_key_size{key="jobs"})`,
			`sum(queue_depth) / 100`,
			`avg(worker_busy) * count(worker_busy)`,
			`max_over_time(sum(queue_depth)[5m:1m])`,
			`sum(max by (queue, instance) (rate(http_requests_total[1m])))`,
			`max(sum by (instance) (rabbitmq_queue_messages))`,
			`histogram_count(sum(rate(http_request_size[5m])))`,
			`job:http_requests:sum_rate5m`,
			`sum(instance:http_requests:rate5m)`,
			`job:queue_depth:avg5m`,
			`job:queue_depth:max`,
			`sqrt(sum(rate(http_requests_total[1m])))`,
			`sum(deriv(http_requests_total[5m]))`,
		},
	},
	"latency in seconds": {
		warning: "value = 500: the query returns seconds", keys: `value = 500`,
		warns: []string{
			`sum(rate(http_request_duration_seconds_sum[5m])) / sum(rate(http_request_duration_seconds_count[5m]))`,
			`sum(rate(http_server_requests_seconds_sum[1m])) / sum(rate(http_server_requests_seconds_count[1m])) or vector(0)`,
			`histogram_quantile(0.99, sum by (le) (rate(grpc_server_handling_seconds_bucket[5m]))) > 0 or vector(0)`,
			`max_over_time(histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))[10m:1m])`,
			`avg(http_request_duration_seconds{quantile="0.9"})`,
			`max(probe_http_duration_seconds)`,
			`clamp_max(avg(http_response_time_seconds), 60)`,
			`histogram_avg(sum(rate(http_request_duration_seconds[5m])))`,
			`sum(increase(request_latency_milliseconds_sum[5m])) / 1000 / sum(increase(request_latency_milliseconds_count[5m]))`,
			`avg(rate(http_request_duration_seconds_sum[5m]) / rate(http_request_duration_seconds_count[5m]))`,
			`rate(http_request_duration_seconds_sum[5m]) / rate(http_request_duration_seconds_count[5m])`,
			`sum(rate(api_duration_seconds_sum[5m])) / sum(rate(api_duration_seconds_count[5m]))`,
			`sum(rate(handler_duration_seconds_sum[5m])) / clamp_min(sum(rate(handler_duration_seconds_count[5m])), 1)`,
			`(sum(increase(rest_duration_seconds_sum[5m])) / (sum(increase(rest_duration_seconds_count[5m])) > 0)) or vector(0)`,
			`histogram_avg(sum(rate(web_duration_seconds[5m])))`,
			`rate(myapp_duration_seconds_sum[5m]) / rate(myapp_duration_seconds_count[5m])`,
			`sum(rate(checkout_duration_seconds_sum[5m])) / sum(rate(checkout_duration_seconds_count[5m])) or vector(0)`,
			`max(irate(db_query_duration_seconds_sum[1m]) / irate(db_query_duration_seconds_count[1m]))`,
			`histogram_quantile(0.9, sum by (le) (rate(payment_duration_seconds_bucket[5m])))`,
			`job:http_request_duration_seconds:mean5m`,
		},
		silent: []string{
			`1000 * histogram_quantile(0.99, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`,
			`sum(rate(http_request_duration_seconds_sum[5m])) / sum(rate(http_request_duration_seconds_count[5m])) * 1000`,
			`avg(http_request_duration_milliseconds)`,
			`max(queue_wait_seconds)`,
			`avg(batch_job_duration_seconds)`,
			`histogram_quantile(0.9, sum by (le) (rate(http_request_duration_ms_bucket[5m])))`,
			`avg(http_response_size_bytes)`,
			`avg(http_request_duration_seconds) / 0.001`,
			`sum(rate(api_export_duration_seconds_sum[5m])) / sum(rate(api_export_duration_seconds_count[5m]))`,
			`sum(rate(sip_call_duration_seconds_sum[5m])) / sum(rate(sip_call_duration_seconds_count[5m]))`,
			`sum(rate(order_processing_duration_seconds_sum[5m])) / sum(rate(order_processing_duration_seconds_count[5m]))`,
			`histogram_quantile(0.9, sum by (le) (rate(ci_build_duration_seconds_bucket[5m])))`,
			`sum(rate(myapp_duration_seconds_sum[5m])) / sum(rate(done_total[5m]))`,
			`1000 * rate(myapp_duration_seconds_sum[5m]) / rate(myapp_duration_seconds_count[5m])`,
			`avg(myapp_duration_seconds)`,
			`max(sidekiq_queue_latency_seconds)`,
			`sum(rate(encoding_duration_seconds_sum[5m])) / sum(rate(encoding_duration_seconds_count[5m]))`,
			`1000 * sum(rate(api_duration_seconds_sum[5m])) / sum(rate(api_duration_seconds_count[5m]))`,
			`sum(rate(api_duration_milliseconds_sum[5m])) / sum(rate(api_duration_milliseconds_count[5m]))`,
			`sqrt(avg(http_request_duration_seconds))`,
		},
	},
	"latency in milliseconds": {
		warning: "value = 0.5: the query returns a smaller unit", keys: `value = 0.5`,
		warns: []string{
			`avg(http_request_duration_milliseconds)`,
			`avg(http_request_duration_ms) or vector(0)`,
			`1000 * avg(http_request_duration_seconds)`,
			`histogram_quantile(0.9, sum by (le) (rate(http_request_duration_ms_bucket[5m])))`,
			`max_over_time(avg(rpc_latency_microseconds)[5m:1m])`,
		},
		silent: []string{
			`avg(http_request_duration_seconds)`,
			`avg(http_request_duration_milliseconds) / 1000`,
			`avg(queue_wait_milliseconds)`,
			`sum(rate(http_request_duration_seconds_sum[5m])) / sum(rate(http_request_duration_seconds_count[5m]))`,
			`avg(http_requests)`,
		},
	},
	"cpu in cores": {
		warning: "average_value = 500: is 500 cores", keys: `average_value = 500`,
		warns: []string{
			`sum(rate(container_cpu_usage_seconds_total{container!=""}[5m]))`,
			`sum(irate(process_cpu_seconds_total[1m])) or vector(0)`,
			`clamp_min(sum(rate(node_cpu_seconds_total{mode!="idle"}[5m])), 0)`,
			`max_over_time(sum(rate(container_cpu_usage_seconds_total[5m]))[10m:1m])`,
			`sum by (job) (rate(process_cpu_seconds_total[5m]))`,
		},
		silent: []string{
			`sum(rate(container_cpu_usage_seconds_total[5m])) * 1000`,
			`100 * sum(rate(node_cpu_seconds_total{mode!="idle"}[5m]))`,
			`sum(rate(http_requests_total[5m]))`,
			`sum(increase(process_cpu_seconds_total[5m]))`,
			`sum(node_load1)`,
		},
	},
	"memory in bytes": {
		warning: "average_value = 512: is 512 bytes", keys: `average_value = 512`,
		warns: []string{
			`sum(container_memory_working_set_bytes)`,
			`sum(process_resident_memory_bytes) or vector(0)`,
			`max_over_time(sum(jvm_memory_used_bytes{area="heap"})[5m:1m])`,
			`sum(avg_over_time(go_memstats_heap_inuse_bytes[5m]))`,
			`(sum(container_memory_rss_bytes{memory="x"}))`,
		},
		silent: []string{
			`sum(container_memory_working_set_bytes) / 1024 / 1024`,
			`sum(container_memory_working_set_bytes) / 1e6`,
			`sum(redis_list_length)`,
			`sum(queue_bytes)`,
			`100 * sum(jvm_memory_used_bytes) / scalar(max(jvm_memory_max_bytes))`,
		},
	},
	"gap": {
		warning: "removes all series in ordinary operation", keys: `average_value = 5`,
		warns: []string{
			`sum(rabbitmq_queue_messages_ready > 0)`,
			`clamp_min(sum(queue_depth) > 0, 0)`,
			`max_over_time((sum(queue_depth) > 0)[5m:1m])`,
			`sum(queue_depth) - 5 >= 0`,
			`-sum(queue_depth) < 0`,
			`sum(queue_depth) > scalar(max(queue_limit))`,
			`sum(queue_depth) and sum(queue_depth) > 10`,
			`sum(queue_depth) unless sum(queue_depth) < 5`,
			`sum(queue_depth) * on () (sum(queue_depth) > bool 5) and on () (hour() >= 8)`,
			`label_replace(sum(queue_depth) > 2 * 5, "a", "b", "c", "d")`,
			`sum(queue_depth) > vector(0)`,
			`count(worker_state == 0)`,
			`1 - absent(queue_depth)`,
		},
		silent: []string{
			`sum(rabbitmq_queue_messages_ready > 0) or vector(0)`,
			`(clamp_min(sum(queue_depth) > 0, 0)) or vector(0)`,
			`sum(queue_depth) and on () (up{job="rabbitmq"} == 1)`,
			`sum(queue_depth) - 5 >= -5`,
			`sum(queue_depth) unless on () (maintenance == 1)`,
			`sum(queue_depth) < 1000`,
			`sum(queue_depth > bool 5)`,
			`sum(up{job="web"} == 1)`,
			`sum(queue_depth != 5)`,
			`sum(queue_depth) / (count(up) > 0) * count(up)`,
		},
	},
	"counter": {
		warning: "is a counter and never falls", keys: `average_value = 5`,
		warns: []string{
			`sum(http_requests_total) or vector(0)`,
			`clamp_min(sum(nginx_http_requests_total), 1)`,
			`sum(http_requests_total) - 5`,
			`-(-sum(http_requests_total))`,
			`max_over_time(sum(http_requests_total)[5m:1m])`,
			`label_replace(sum(http_requests_total), "a", "b", "c", "d")`,
			`sum({__name__="http_requests_total"})`,
			`sum(predict_linear(http_requests_total[1h], 600))`,
			`sum(http_request_duration_seconds_count) * 2`,
			`sum(topk(3, http_requests_total))`,
			`scalar(sum(http_requests_total))`,
			`sum(http_requests_total) and on () (up == 1)`,
		},
		silent: []string{
			`sum(rate(http_requests_total[1m])) or vector(0)`,
			`sum(http_requests_total - http_requests_total offset 5m)`,
			`sum(jobs_enqueued_total) - sum(jobs_finished_total)`,
			`count(http_requests_total)`,
			`sum(changes(http_requests_total[5m]))`,
			`sum(increase(http_requests_total[5m]))`,
			`sum(memory_total)`,
			`sum(queue_waiting_total)`,
			`max_over_time(sum(rate(http_requests_total[1m]))[5m:1m])`,
		},
	},
	"rate of a gauge": {
		warning: "which is a gauge and not a counter", keys: `average_value = 5`,
		warns: []string{
			`sum(rate(queue_depth[5m]))`,
			`rate(sum(queue_depth)[5m:1m])`,
			`sum(increase(kafka_consumergroup_lag[5m])) or vector(0)`,
			`rate(clamp_min(queue_depth, 0)[5m:1m])`,
			`sum(irate((redis_list_length)[5m:1m]))`,
			`rate(avg_over_time(queue_depth[1m])[5m:1m])`,
			`sum(rate(memory_bytes[5m]))`,
			`sum(rate(container_memory_usage_bytes[5m]))`,
			`sum(increase(container_fs_usage_bytes{device="a"}[5m])) or vector(0)`,
			`sum(rate(process_resident_memory_bytes[5m]))`,
			`sum(irate(jvm_memory_used_bytes[5m]))`,
			`sum(rate(node_filesystem_avail_bytes[5m]))`,
			`sum(rate(queue_depth_messages[5m]))`,
			`sum(rate(rabbitmq_queue_messages[5m]))`,
			`sum(rate(rabbitmq_queue_messages_unacknowledged[5m]))`,
			`sum(rate(http_requests_in_flight[5m]))`,
			`sum(rate(sidekiq_queue_size[5m]))`,
			`sum(rate(disk_used_percent[5m]))`,
			`rate(job:http_requests:sum_rate5m[5m])`,
			`rate(job:queue_depth:sum[5m])`,
			`sum(rate(jvm_memory_bytes_used[5m]))`,
			`sum(rate(memory_usage[5m]))`,
		},
		silent: []string{
			`sum(deriv(queue_depth[5m]))`,
			`sum(delta(queue_depth[5m]))`,
			`sum(avg_over_time(queue_depth[5m]))`,
			`sum(rate(http_requests_total[5m]))`,
			`max_over_time(sum(queue_depth)[5m:1m])`,
			`sum(rate(node_network_receive_bytes[5m]))`,
			`sum(rate(go_memstats_alloc_bytes_total[5m]))`,
			`sum(rate(http_response_size_bytes_sum[5m]))`,
			`histogram_count(sum(rate(http_response_size_bytes[5m])))`,
			`sum(rate(queue_depth_sum[5m])) + sum(rate(queue_depth_count[5m]))`,
			`sum(rate(memory_bytes_read[5m]))`,
			`sum(rate(rabbitmq_queue_messages_published_total[5m]))`,
			`sum(rate(container_cpu_usage_seconds_total[5m]))`,
			`sum(rate(messages_processed[5m]))`,
			`sum(rate(cpu_usage[5m]))`,
			`sum(rate(credits_used[5m]))`,
			`sum(rate(kafka_lag_exporter_polls[5m]))`,
			`sum(rate(gpu_memory_bandwidth_bytes[5m]))`,
			`sum(rate(rabbitmq_queue_messages_redelivered[5m]))`,
			`sum(rate(jobs[5m]))`,
		},
	},
	"rate of a sum": {
		warning: "of a sum shows a jump", keys: `average_value = 5`,
		warns: []string{
			`rate(sum(http_requests_total)[5m:1m])`,
			`rate((sum(http_requests_total) or vector(0))[5m:1m])`,
			`increase(label_replace(sum by (job) (http_requests_total), "a", "b", "c", "d")[5m:1m])`,
			`rate((sum(a_total) + sum(b_total))[5m:1m])`,
			`irate(max_over_time(sum(http_requests_total)[5m:1m])[5m:1m]) or vector(0)`,
			`rate((sum(http_requests_total) / 60)[5m:1m])`,
		},
		silent: []string{
			`sum(rate(http_requests_total[5m]))`,
			`sum(rate(http_requests_total[5m:1m]))`,
			`max_over_time(sum(rate(http_requests_total[1m]))[5m:1m])`,
			`deriv(sum(queue_size)[5m:1m])`,
			`sum(increase(http_requests_total[5m])) or vector(0)`,
		},
	},
	"short subquery": {
		warning: "the subquery has a step of", keys: `average_value = 5`,
		warns: []string{
			`sum(rate(x[1m:1m]))`, `sum(increase((x)[30s:1m])) or vector(0)`, `sum(irate(x[5m:5m]))`, `sum(deriv(x[1m:1m]))`, `sum(delta(x[90s:1m]))`,
		},
		silent: []string{
			`sum(rate(x[2m:1m]))`, `sum(rate(x[5m:]))`, `max_over_time(sum(x)[1m:1m])`, `sum(increase(x[1h:1m]))`, `sum(avg_over_time(x[1m:30s]))`,
		},
	},
	"short range": {
		warning: "requires 2 samples in that period", keys: `average_value = 5`,
		warns: []string{
			`sum(rate(x[2s]))`, `sum(rate(x[2s])) or vector(0)`, `clamp_min(sum(increase(x[5s])), 0)`, `max_over_time(sum(irate(x[8s]))[5m:1m])`, `sum(rate((x{job="a"}[2s])))`,
			`sum(delta(y[9s]))`,
		},
		silent: []string{
			`sum(rate(x[10s]))`, `sum(rate(x[1m])) or vector(0)`, `sum(max_over_time(x[5s]))`, `max_over_time(sum(rate(x[1m]))[5m:1m])`, `sum(rate(x[2s:1s]))`,
		},
	},
	"quantile": {
		warning: "is always infinite", keys: `value = 5`,
		warns: []string{
			`quantile(95, x)`,
			`quantile(0.95 * 100, x) or vector(0)`,
			`max(quantile_over_time(95, x[5m]))`,
			`clamp_max(histogram_quantile(99, sum by (le) (rate(x_bucket[5m]))), 5)`,
			`quantile(-(0.5), x)`,
			`max_over_time(quantile(scalar(vector(95)), x)[5m:1m])`,
		},
		silent: []string{
			`quantile(0.95, x)`,
			`quantile(95 / 100, x) or vector(0)`,
			`max(quantile_over_time(0.95, x[5m]))`,
			`histogram_quantile(1, sum by (le) (rate(x_bucket[5m])))`,
			`quantile(scalar(wanted), x)`,
		},
	},
	"missing le": {
		warning: "needs the label le", keys: `value = 5`,
		warns: []string{
			`histogram_quantile(0.95, sum(rate(x_bucket[5m])))`,
			`histogram_quantile(0.95, sum by (job) (rate(x_bucket[5m]))) or vector(0)`,
			`histogram_quantile(0.95, clamp_min(sum(rate(x_bucket[5m])), 0))`,
			`max_over_time(histogram_quantile(0.95, sum without (le) (rate(x_bucket[5m])))[5m:1m])`,
			`histogram_quantile(0.95, avg_over_time(sum(rate(x_bucket[5m]))[5m:1m]))`,
			`histogram_quantile(0.95, sum(rate(x_bucket[5m])) * 2)`,
		},
		silent: []string{
			`histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))`,
			`histogram_quantile(0.95, sum by (le, job) (rate(x_bucket[5m]))) or vector(0)`,
			`histogram_quantile(0.95, sum without (pod) (rate(x_bucket[5m])))`,
			`histogram_quantile(0.95, sum(rate(http_request_duration_seconds[5m])))`,
			`max(histogram_quantile(0.95, rate(x_bucket[5m])))`,
		},
	},
	"bool": {
		warning: "a comparison with bool is 0 or 1", keys: `value = 5`,
		warns: []string{
			`sum(x) > bool 5`, `(sum(x) > bool 5) or vector(0)`, `100 * (avg(x) >= bool 0.8)`, `max_over_time((sum(x) > bool 5)[5m:1m])`, `max(x > bool 5)`, `-(avg(x) < bool 5) + 1`,
			`sum(sum(x) > bool 5)`,
		},
		silent: []string{
			`avg(x > bool 5)`, `avg(x) * (sum(x) > bool 5)`, `avg_over_time((sum(x) > bool 5)[5m:1m])`, `avg(x) > 5 or vector(0)`, `avg(sum by (queue) (x > bool 5))`,
		},
	},
	"fixed time": {
		warning: "a selector with a fixed time (@) never changes", keys: `average_value = 5`,
		warns: []string{
			`sum(x @ 1609746000)`, `sum(x @ 1609746000) or vector(0)`, `sum(rate(x[5m] @ 1609746000))`, `max_over_time(sum(x)[5m:1m] @ 1609746000)`, `ceil(-sum(x @ 1609746000 offset 5m))`,
		},
		silent: []string{
			`sum(x @ end())`, `sum(x offset 5m)`, `sum(rate(x[5m] @ start()))`, `max_over_time(sum(x)[5m:1m])`, `sum(x{at="@ 1609746000"})`,
		},
	},
	"variable": {
		warning: "contains a variable of a different tool", keys: `average_value = 5`,
		warns: []string{
			`sum(x{pod="$pod"})`, `sum(x{namespace="${ns}"}) or vector(0)`, `sum(rate(x{app="{{ .Values.name }}"}[5m]))`, `sum(x{job=~"$job"})`, `sum(x{job!="$(JOB)"})`,
			`max_over_time(sum(x{queue="%s"})[5m:1m])`, `sum(x{queue="<queue>"})`, `sum(x{queue="<<.Resource>>"})`, `sum(x{queue="[[queue]]"})`, `sum(x{queue=~"%(queue)s"})`,
			`sum(x{queue="%QUEUE%"})`, `sum(x{queue="@QUEUE@"})`, `sum(x{queue="#{queue}"})`, `sum(x{queue="web-$env"})`, `sum(x{queue=~"prefix-${env:regex}.*"})`,
			`sum(x{namespace="%NS%"})`, `sum(x{namespace="__NS__"}) or vector(0)`, `sum(x{namespace="@@NS@@"})`, `sum(rate(x{a="web-__ENV_2__"}[5m]))`, `sum(x{a="<%= ns %>"})`,
			`sum(x{a=~"%NS%.*"})`, `sum(x{a="{NAMESPACE}"})`,
			`clamp_min(sum(x{__name__="$metric"}), 0)`, `sum(x{a="b"}) + sum(y{queue="%{queue}"})`, `sum(x{queue="{% queue %}"})`,
		},
		silent: []string{
			`sum(x{path="/users/{id}"})`, `sum(x{route="/user/<int:id>"})`, `sum(x{route=~"^/api/.*$"})`, `sum(x{class="com.example.Pool$Worker"})`, `sum(x{path="/$metadata"})`,
			`sum(x{image="<none>"})`, `sum(x{path="/a%20b"})`, `sum(x{method="<init>"})`, `sum(x{queue=~"(?P<name>a|b)$"})`, `sum(x{queue=~"a$|b$"})`, `sum(x{price="$5"})`,
			`sum(label_replace(x, "a", "$1", "b", "(.*)"))`, `sum(label_replace(x, "a", "${name}", "b", "(?P<name>.*)"))`, `sum(x{queue=~"[[:alpha:]]+"})`, `sum(x{load="50%"})`,
			`sum(x{topic="__consumer_offsets"})`, `sum(x{part="__HIVE_DEFAULT_PARTITION__"})`, `sum(x{method="__init__"})`, `sum(x{path="/%AB%CD"})`, `sum(x{user="__NONE__"})`,
			`sum(x{path="/users/{ID}"})`, `sum(x{a=~"[A-Z]{2}"})`,
		},
	},
	"selected label": {
		warning: `select: the query returns no label "queue"`, keys: `average_value = 5, select = { queue = "q" }`,
		warns: []string{
			`sum by (job) (x) or vector(0)`, `clamp_min(sum(x), 1)`, `max_over_time(sum(x)[5m:1m])`, `label_replace(sum by (job) (x), "job", "$1", "a", "(.*)")`, `sum without (queue) (x)`,
			`-(sum by (job) (x))`, `count_values("version", sum(x))`, `x{queue=""}`, `scalar(x) + vector(5)`,
		},
		silent: []string{
			`sum by (queue) (x) or vector(0)`, `clamp_min(x, 1)`, `max_over_time(sum by (queue) (x)[5m:1m])`, `label_replace(sum(x), "queue", "q", "", "")`, `sum without (job) (x)`,
			`count_values("queue", x)`, `sum by (job) (x) * on (job) group_right y`, `label_join(sum by (job) (x), "queue", "-", "job")`,
		},
	},
	"variable in select": {
		warning: `select: the value of label "queue" contains a variable`,
		warns: []string{
			`query = "x", average_value = 5, select = { queue = "$QUEUE" }`,
			`query = "x or y", average_value = 5, select = { queue = "${QUEUE}" }`,
			`query = "sum by (queue) (x)", average_value = 5, select = { queue = "{{ .Values.queue }}" }`,
			`query = "-x", average_value = 5, select = { queue = "<queue>" }`,
			`query = "x", average_value = 5, select = { job = "a", queue = "web-%s" }`,
		},
		silent: []string{
			`query = "x", average_value = 5, select = { queue = "jobs" }`,
			`query = "x or y", average_value = 5, select = { queue = "Pool$Worker" }`,
			`query = "sum by (queue) (x)", average_value = 5, select = { queue = "a{b}" }`,
			`query = "-x", average_value = 5, select = { queue = "<none>" }`,
			`query = "x", average_value = 5, select = { job = "a", queue = "50%" }`,
		},
	},
	"instance label": {
		warning: `instance_label = "id": the query returns no label "id"`, keys: `average_value = 5, instance_label = "id"`,
		warns: []string{
			`sum by (job) (x)`, `sum(rate(x[1m])) or vector(0)`, `ceil(avg by (job) (x))`, `avg_over_time(sum(x)[5m:1m])`, `-sum(x)`, `topk(3, sum by (job) (x))`, `a / on (job) b`,
		},
		silent: []string{
			`sum by (id) (x)`, `rate(x[1m]) or y`, `ceil(avg by (id, job) (x))`, `avg_over_time(x[5m])`, `-x`, `topk(3, x)`, `a / on (id) b`, `a / ignoring (job) b`,
		},
	},
	"age without effect": {
		warning: "has no effect on the query", keys: `average_value = 5, max_age = "1m"`,
		warns: []string{
			`sum(rate(x[1m]))`, `sum(rate(x[1m])) or vector(0)`, `clamp_min(sum(max_over_time(x[5m])), 1)`, `max_over_time(sum(rate(x[1m]))[5m:1m])`, `-sum(increase(x[5m]))`,
		},
		silent: []string{
			`sum(x)`, `sum(x) or vector(0)`, `sum(rate(x[1m])) + sum(y)`, `max_over_time(sum(x)[5m:1m])`, `-clamp_min(sum(x), 1)`,
		},
	},
	"parse error with a variable": {
		warning: "it contains a variable of a different tool", keys: `average_value = 5`,
		warns: []string{
			`sum(rate(x[$__rate_interval]))`, `sum(rate(x[${interval}]))`, `sum({{ .Values.metric }})`, `sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))`, `sum($metric)`,
		},
		silent: []string{`sum(x)`, `sum(x{a="b"})`, `sum(rate(x[5m]))`, `sum(label_replace(x, "a", "$1", "b", "(.*)"))`, `sum(x % 5)`},
	},
}

// TestLints checks that a lint judges the meaning of a query and not its spelling.
func TestLints(t *testing.T) {
	for name, lint := range lintCases {
		if len(lint.warns) < 5 || len(lint.silent) < 5 {
			t.Errorf("%s: %d queries with a warning and %d without, want at least 5 of each", name, len(lint.warns), len(lint.silent))
		}
		for _, query := range lint.warns {
			if got := lintsOf(t, query, lint.keys); len(got) != 1 || !strings.Contains(got[0], lint.warning) {
				t.Errorf("%s: %s: warnings %q, want one with %q", name, query, got, lint.warning)
			}
		}
		for _, query := range lint.silent {
			if got := lintsOf(t, query, lint.keys); len(got) > 0 {
				t.Errorf("%s: %s: warnings %q, want none", name, query, got)
			}
		}
	}
}

// lintsOf returns the warnings about a metric with a query. Without keys, query contains all keys of
// the metric.
func lintsOf(t *testing.T, query, keys string) (warnings []string) {
	t.Helper()
	metric := `name = "m", source = "prom", type = "External", `
	if strings.Contains(keys, "instance_label") {
		metric = `name = "m", source = "prom", type = "Instances", `
	}
	if keys != "" {
		query = fmt.Sprintf("query = '''%s''', %s", query, keys)
	}
	c, err := Parse("hpad.toml", []byte(doubtful[:strings.Index(doubtful, "metrics = [")]+"metrics = [{"+metric+query+"}]"))
	if err != nil {
		t.Fatal(query, err)
	}
	for _, warning := range c.Warnings() {
		warnings = append(warnings, warning.Error())
	}
	return warnings
}

// TestFormulaLints checks that the formula decides the meaning of its metrics, and that all other lints
// apply to their queries.
func TestFormulaLints(t *testing.T) {
	const load, errors, latency, busy = "sum(rate(http_requests_total[1m]))", "sum(rate(http_errors_total[1m]))",
		"sum(rate(http_request_duration_seconds_sum[5m])) / sum(rate(http_request_duration_seconds_count[5m]))", "avg(worker_busy)"
	const total, averaged = "value = 500: the formula is a total", "average_value = 500: the formula is already an average"
	for _, test := range []struct{ formula, a, b, target, want string }{
		{"a", load, "", "value", total},
		{"a + b", load, errors, "value", total},
		{"0.7 * a + 0.3 * b", load, errors, "value", total},
		{"a - b", load, errors, "value", total},
		{"a - b", load, "sum(rate(calls[1m]))", "value", "value = 500: the formula is a difference of two totals"},
		{"-b + a", load, "sum(rate(calls[1m]))", "value", "value = 500: the formula is a difference of two totals"},
		{"a - b", load, "sum(rate(calls[1m]))", "average_value", ""},
		{"ceil(a) * 2 - 5", load, "", "value", total},
		{"a * b", busy, "count(worker_busy)", "value", total},
		{"a / b", load, "count(up)", "average_value", averaged},
		{"(a + 1) / 2", busy, "", "average_value", averaged},
		{"a / b", "sum(queue_depth)", "sum(rate(http_requests_total[1m]))", "average_value", averaged},
		{"-(-a)", busy, "", "average_value", averaged},
		{"abs(a)", busy, "", "average_value", averaged},
		{"a", latency, "", "value", "value = 500: the formula returns seconds"},
		{"2 * a / 2", latency, "", "value", "value = 500: the formula returns seconds"},
		{"a / b", load, "count(up)", "value", ""},
		{"1000 * a", latency, "", "value", ""},
		{"a > 5 ? a : 0", load, "", "value", ""},
		{"max(a, b)", load, errors, "value", ""},
		{"100 - a", "sum(queue_depth)", "", "value", ""},
		{"a", load, "", "average_value", ""},
		{"a / b", busy, "avg(worker_limit)", "value", ""},
		{"0.7 * a + 0.3 * b", "sum(queue_depth)", latency, "value", ""},
		{"a / b", "sum(rate(queue_depth[5m]))", "count(up)", "value", "queue_depth, which is a gauge"},
		{"a / b", `sum(queue_depth{namespace="__NS__"})`, "count(up)", "value", "contains a variable of a different tool"},
		{"a / b", load, "count(up{job='%JOB%'})", "value", "contains a variable of a different tool"},
		{"a / b", "sum(http_requests_total)", "count(up)", "value", "is a counter and never falls"},
		{"a / b", "sum(queue_depth > 0)", "count(up)", "value", "removes all series"},
	} {
		metrics := fmt.Sprintf(`{ type = "External", name = "a", source = "prom", query = %q, average_value = 7 }`, test.a)
		if test.b != "" {
			metrics += fmt.Sprintf(`, { type = "External", name = "b", source = "prom", query = %q, average_value = 7 }`, test.b)
		}
		text := fmt.Sprintf("%scombine = %q\n%s = 500\nmetrics = [%s]\n", doubtful[:strings.Index(doubtful, "metrics = [")], test.formula, test.target, metrics)
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(test.formula, err)
		}
		var got []string
		for _, warning := range c.Warnings() {
			got = append(got, warning.Error())
		}
		if len(got) > 1 || (test.want == "") != (len(got) == 0) || test.want != "" && !strings.Contains(got[0], test.want) {
			t.Errorf("%s of %q and %q with %s: warnings %q, want %q", test.formula, test.a, test.b, test.target, got, test.want)
		}
	}
}
