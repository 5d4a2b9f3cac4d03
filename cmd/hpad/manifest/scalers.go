package manifest

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/hpad/hpad/settings/quantity"
)

// scaler describes a type of KEDA's triggers for which hpad needs a query.
type scaler struct {
	// targets are the keys of the target value. The first key that is set applies. Fallback is the
	// default of KEDA, or empty if the key is required.
	targets  []string
	fallback string
	// exporter is the usual program that exports the value to Prometheus, and query is the query of its
	// metric. Each {key} in it is replaced with the value of the key.
	exporter, query string
}

// scalers maps types of triggers to the usual way to read the same value. The metrics are those that
// the documentation of each exporter lists.
var scalers = map[string]scaler{
	prometheusTrigger:     {targets: []string{"threshold"}},
	"rabbitmq":            {[]string{"value", "queueLength"}, "", "RabbitMQ's plugin prometheus, path /metrics/per-object", `sum(rabbitmq_queue_messages_ready{queue="{queueName}"})`},
	"kafka":               {[]string{"lagThreshold"}, "10", "kafka_exporter", `sum(kafka_consumergroup_lag{consumergroup="{consumerGroup}", topic="{topic}"})`},
	"apache-kafka":        {[]string{"lagThreshold"}, "10", "kafka_exporter", `sum(kafka_consumergroup_lag{consumergroup="{consumerGroup}", topic="{topic}"})`},
	"redis":               {[]string{"listLength"}, "5", "redis_exporter with --check-keys", `sum(redis_key_size{key="{listName}"})`},
	"redis-streams":       {[]string{"pendingEntriesCount"}, "5", "redis_exporter with --check-streams", `sum(redis_stream_group_messages_pending{stream="{stream}", group="{consumerGroup}"})`},
	"aws-sqs-queue":       {[]string{"queueLength"}, "5", "cloudwatch_exporter", `sum(aws_sqs_approximate_number_of_messages_visible_average{queue_name="{queueURL}"})`},
	"gcp-pubsub":          {[]string{"value", "subscriptionSize"}, "10", "stackdriver_exporter", `sum(stackdriver_pubsub_subscription_pubsub_googleapis_com_subscription_num_undelivered_messages{subscription_id="{subscriptionName}"})`},
	"nats-jetstream":      {[]string{"lagThreshold"}, "", "prometheus-nats-exporter with -jsz", `sum(jetstream_consumer_num_pending{stream_name="{stream}", consumer_name="{consumer}"})`},
	"artemis-queue":       {[]string{"queueLength"}, "10", "Artemis' metrics plugin", `sum(artemis_message_count{queue="{queueName}"})`},
	"azure-servicebus":    {[]string{"messageCount"}, "5", "azure-metrics-exporter with the metric ActiveMessages of {queueName}{topicName}", ""},
	"azure-queue":         {[]string{"queueLength"}, "5", "azure-metrics-exporter with the metric QueueMessageCount of {queueName}", ""},
	"postgresql":          {[]string{"targetQueryValue"}, "", "a source of kind exec whose command runs the SQL query {query}", ""},
	"mysql":               {[]string{"queryValue"}, "", "a source of kind exec whose command runs the SQL query {query}", ""},
	"mssql":               {[]string{"targetValue"}, "", "a source of kind exec whose command runs the SQL query {query}", ""},
	"metrics-api":         {[]string{"targetValue"}, "", "a source of kind http with the URL {url}, and the query $.{valueLocation}", ""},
	"aws-cloudwatch":      {[]string{"targetMetricValue"}, "", "cloudwatch_exporter with the metric {metricName} of {namespace}", ""},
	"kubernetes-workload": {[]string{"value"}, "", "the number of instances that match {podSelector}", ""},
}

// prometheusTrigger is the type of the triggers that contain a query.
const prometheusTrigger = "prometheus"

// targetName matches the names of keys that usually contain the target value of a trigger.
var targetName = regexp.MustCompile(`^(target.+|value|.+(Value|Threshold|Length|Count|Size|Backlog))$`)

// targetKey returns the key that contains the target value of a trigger. For an unknown type, it is the
// only key with a number and a usual name. It is "" if there is no such key.
func (s scaler) targetKey(given trigger) string {
	for _, key := range s.targets {
		if given.Metadata[key] != "" {
			return key
		}
	}
	if len(s.targets) > 0 {
		return s.targets[0]
	}
	var found []string
	for key, value := range given.Metadata {
		if parsed, err := quantity.Parse(value); err == nil && parsed.Milli() > 0 && targetName.MatchString(key) && !strings.HasPrefix(key, "activation") {
			found = append(found, key)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// placeholder matches a key of the metadata in an exporter or a query.
var placeholder = regexp.MustCompile(`\{[a-zA-Z]+\}`)

// filled replaces the placeholders of a text. Of a URL, it uses only the last part.
func filled(text string, metadata map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(key string) string {
		value := strings.TrimSpace(metadata[strings.Trim(key, "{}")])
		if key == "{queueURL}" {
			value = path.Base(value)
		}
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(value)
	})
}

// remedy describes how to read the value of a trigger.
func (s scaler) remedy(triggerType string, metadata map[string]string) string {
	if s.exporter == "" {
		guess := ""
		if key := s.targetKey(trigger{Metadata: metadata}); key != "" {
			guess = fmt.Sprintf("; the target value was taken from %s, so check it", key)
		}
		return fmt.Sprintf("a query for the value of KEDA's %s trigger, for example of an exporter's metric", triggerType) + guess
	}
	return "the usual origin of this value is " + filled(s.exporter, metadata)
}
