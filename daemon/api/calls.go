package api

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// The tags of calls.
const (
	tagAutoscalers = "autoscalers"
	tagActions     = "actions"
	tagStatus      = "status"
	tagManagement  = "management"
)

// calls returns all calls of the API.
func (h handlers) calls(gatherer prometheus.Gatherer) []call {
	return slices.Concat(h.autoscalerReads(), h.historyReads(), h.statusReads(), h.writes(), h.management(gatherer))
}

func (h handlers) autoscalerReads() []call {
	return []call{
		{
			path: "/api/v1/autoscalers", id: "listAutoscalers", tag: tagAutoscalers, operation: stream[ListQuery, []Autoscaler]("", h.autoscalers),
			summary: "All autoscalers, sorted by name, or one page of the list. They have no decision and no events.",
		},
		{
			path: "/api/v1/autoscalers/{name}", id: "getAutoscaler", tag: tagAutoscalers, operation: read(h.autoscaler),
			summary: "One autoscaler, with its last decision and newest events.",
		},
		{
			path: "/api/v1/autoscalers/{name}/graph", id: "graphAutoscaler", tag: tagAutoscalers, operation: read(h.graph),
			summary:     "The data of the graphs: counts, bounds, and the values and proposals of metrics, for each pass.",
			description: "Returns 404 if `page = false` in the configuration.",
		},
		{
			path: "/api/v1/autoscalers/{name}/recording", id: "recordAutoscaler", tag: tagAutoscalers, operation: compute(h.recording),
			summary: "The recorded passes of an autoscaler, and its policies, for a simulation.", slow: true,
			description: "Changes nothing. The policies are the active one and those of the variants. Without data or with an invalid variant, the status is 400.",
		},
		{
			path: "/api/v1/autoscalers/{name}/simulation", id: "simulateAutoscaler", tag: tagAutoscalers, operation: compute(h.simulation),
			summary: "The counts, shortages and surpluses that the active policy and variants of it would have had.", slow: true,
			description: "Changes nothing. The daemon performs one simulation at a time, for at most 2 seconds; others have the status 429.",
		},
		{
			path: "/api/v1/autoscalers/{name}/instances", id: "listInstances", tag: tagAutoscalers, operation: read(h.instances),
			summary:     "The current instances of the target, with their values of the metrics, or the error from reading them.",
			description: "hpad reads the instances for this request.", errors: []ErrorType{ErrorRefused},
		},
		{
			path: "/api/v1/autoscalers/{name}/logs", id: "readLogs", tag: tagAutoscalers, operation: stream[LogQuery, string]("text/plain", h.logs),
			restricted: "the output of an instance", long: true, errors: []ErrorType{ErrorRefused},
			summary: "The output of an instance, without recognized secrets. Lines of more than 64 KiB are split.",
		},
		{
			path: "/api/v1/sd/{fleet}/{target...}", id: "listEndpoints", tag: tagAutoscalers,
			operation: stream[none, []EndpointGroup](mediaJSON, h.endpoints), errors: []ErrorType{ErrorUnavailable},
			summary:     "The addresses of the ready instances of a target, for the HTTP service discovery of Prometheus.",
			description: "If the target cannot be read, the list is the last one. If there is no last list, the status is 503, and a client should keep its own last list.",
		},
		{
			path: "/api/v1/discovery", id: "listDiscovered", tag: tagAutoscalers, operation: read(h.discovery),
			summary: "The targets that fleets discovered by their labels, sorted.",
		},
	}
}

func (h handlers) historyReads() []call {
	const verification = "a verification of the history"
	return []call{
		{
			path: "/api/v1/autoscalers/{name}/explain", id: "explainAutoscaler", tag: tagAutoscalers, operation: read(h.explain),
			summary: "The last decision with its inputs.", errors: []ErrorType{ErrorTooMany},
		},
		{
			path: "/api/v1/autoscalers/{name}/history", id: "listHistory", tag: tagAutoscalers, operation: stream[HistoryQuery, []Recorded]("", h.history),
			summary: "The recorded decisions, oldest first.",
		},
		{
			path: "/api/v1/history", id: "listWholeHistory", tag: tagAutoscalers, operation: stream[HistoryQuery, []Recorded]("", h.history),
			summary: "The recorded decisions of all autoscalers, oldest first.",
		},
		{
			path: "/api/v1/autoscalers/{name}/history/verify", id: "verifyHistory", tag: tagAutoscalers, operation: read(h.verify), restricted: verification,
			summary: "Recomputes the recorded decisions and compares the results.",
		},
		{
			path: "/api/v1/history/verify", id: "verifyWholeHistory", tag: tagAutoscalers, operation: read(h.verify), restricted: verification,
			summary: "Recomputes the recorded decisions of all autoscalers and compares the results.",
		},
	}
}

func (h handlers) statusReads() []call {
	return []call{
		{
			path: "/api/v1/pauses", id: "listPauses", tag: tagActions, operation: read(h.pauses),
			summary: "The active pauses, the widest scope first, including pauses of autoscalers and fleets that are not configured now.",
		},
		{
			path: "/api/v1/cluster", id: "showCluster", tag: tagStatus, operation: read(h.cluster), errors: []ErrorType{ErrorNotFound},
			summary: "The members of the cluster, and the owners of fleets, as this member sees them.",
		},
		{
			path: "/api/v1/status/config", id: "config", tag: tagStatus, operation: stream[ConfigQuery, ConfigText]("", h.config),
			summary: "The active configuration, without secrets.",
		},
		{
			path: "/api/v1/status/buildinfo", id: "buildInfo", tag: tagStatus, summary: "The version and build of hpad.",
			operation: read(func(*http.Request, none) (BuildInfo, error) { return Build(), nil }),
		},
		{
			path: "/api/v1/openapi.yaml", id: "openAPI", tag: tagStatus, operation: stream[none, any]("application/yaml", description),
			summary: "The description of this API, in OpenAPI 3.",
		},
	}
}

func (h handlers) writes() []call {
	unstored := []ErrorType{ErrorUnstored}
	pause := func(path, id, of string, owner ownership) call {
		return call{
			path: path + "/pause", id: "pause" + id, tag: tagActions, operation: write(h.pause), owner: owner, errors: unstored,
			summary: "Pause " + of + ".", returns: "The active pause.",
		}
	}
	resume := func(path, id, of string, owner ownership) call {
		return call{
			path: path + "/resume", id: "resume" + id, tag: tagActions, operation: write(h.resume), owner: owner, errors: append(unstored, ErrorNotPaused),
			summary: "End the pause of " + of + ".", returns: "The pause that was ended.",
		}
	}
	const autoscaler, fleet, all = "/api/v1/autoscalers/{name}", "/api/v1/fleets/{fleet}", "/api/v1"
	return []call{
		pause(autoscaler, "Autoscaler", "an autoscaler", forwardedAgain), resume(autoscaler, "Autoscaler", "an autoscaler", forwarded),
		pause(fleet, "Fleet", "all autoscalers of a fleet", forwardedAgain), resume(fleet, "Fleet", "all autoscalers of a fleet", forwarded),
		pause(all, "All", "all autoscalers", everywhere), resume(all, "All", "all autoscalers", everywhere),
		{
			path: autoscaler + "/scale", id: "scaleAutoscaler", tag: tagActions, operation: write(h.scale), owner: forwarded,
			summary: "Set the count of an autoscaler once.",
			returns: "The autoscaler, after the platform has accepted the count and hpad has stored it.",
		},
		{
			path: autoscaler + "/evaluate", id: "evaluateAutoscaler", tag: tagActions, operation: write(h.evaluate), owner: forwardedAgain,
			summary: "Evaluate an autoscaler now.", returns: "The autoscaler after the pass.",
		},
		{
			path: autoscaler + "/restart", id: "restartAutoscaler", tag: tagActions, operation: write(h.restart), owner: forwarded,
			summary: "Replace the instances of an autoscaler's target one after the other, without a change.",
			returns: "The autoscaler. The replacement has been requested.",
		},
		{
			path: "/api/v1/cluster/adopt", id: "adoptFleet", tag: tagActions, operation: write(h.adopt), errors: []ErrorType{ErrorNotFound, ErrorRefused},
			summary: "Make the queried member's configuration the one under which a fleet is owned.", returns: "The cluster.",
		},
	}
}

func (h handlers) management(gatherer prometheus.Gatherer) []call {
	return []call{
		{
			path: "/{$}", id: "index", tag: tagManagement, operation: stream[none, string]("text/html; charset=utf-8", index),
			summary: "The page of hpad, or with page = false, links to readable paths.",
		},
		{
			path: "/metrics", id: "metrics", tag: tagManagement, operation: stream[metricsQuery, string]("text/plain", metrics(gatherer)),
			summary: "hpad's own metrics in Prometheus's text format.", description: "The compression depends on the Accept-Encoding header. If a collector fails, only its metrics are missing.",
		},
		{
			path: "/-/healthy", id: "healthy", tag: tagManagement, operation: stream[HealthQuery, Health](mediaJSON, h.healthy),
			summary:   "Reports whether the scheduler is ticking.",
			unhealthy: "The scheduler is not ticking. With strict, also if an autoscaler is not evaluated, every pass fails, the last reload was rejected, the state cannot be written, or the cluster has a problem.",
		},
		{
			path: "/-/ready", id: "ready", tag: tagManagement, operation: stream[none, Readiness](mediaJSON, h.ready),
			summary:   "Reports whether the configuration is live, every autoscaler has had its first pass, the state can be written, and a member of a cluster has read the store.",
			unhealthy: "hpad is starting, or cannot write the state.",
		},
		{
			path: "/-/reload", id: "reload", tag: tagManagement, operation: write(h.reload), slow: true, errors: []ErrorType{ErrorReload},
			summary:     "Reload the configuration.",
			description: "If the client disconnects, the reload continues. The warnings name settings that cannot work and, in a cluster, the members that cannot take over a fleet.",
			returns:     "The changes. They are active, except for changes that apply at the next start.",
		},
		{
			path: "/api/v1/status/reload", id: "reloadChanges", tag: tagManagement, operation: read(h.reloadChanges), errors: []ErrorType{ErrorReload},
			restricted: "a dry run of a reload", slow: true,
			summary: "The changes that a reload would make now.", description: "Performs all steps of a reload except the activation.",
		},
		{
			path: "/api/v1/state", id: "exportState", tag: tagManagement, operation: stream[StateQuery, string]("application/jsonl", h.exportState),
			restricted: "the state", long: true,
			summary:     "The state, for `hpad state import`.",
			description: "The state contains secrets of Compose services. The format is JSON Lines: a header, one line for each value, and a last line. An export without the last line is incomplete.",
		},
		{
			path: "/debug/pprof/{profile}", id: "profile", tag: tagManagement, operation: stream[profileQuery, []byte]("application/octet-stream", profile),
			restricted: "a profile", long: true,
			summary: "A profile of the daemon itself, for `go tool pprof` or, for trace, for `go tool trace`.",
		},
	}
}
