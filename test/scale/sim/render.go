package sim

import (
	"fmt"
	"strconv"
	"time"
)

// JSON fragments of responses, with fields in the same order as in Nomad.

// detail contains the options of an allocation list.
type detail struct{ resources, states bool }

func timestamp(dst []byte, at time.Time) []byte {
	if at.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func number[T int | int64 | uint64](dst []byte, name string, n T) []byte {
	dst = append(dst, name...)
	return strconv.AppendInt(dst, int64(n), 10)
}

func text(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	return append(append(append(dst, '"'), value...), '"')
}

// stub appends a job in the format of a list.
func (j *job) stub(dst []byte, meta bool) []byte {
	dst = number(dst, `{"CreateIndex":`, j.createIndex)
	dst = text(dst, `,"Datacenters":["*"],"ID":`, j.id)
	dst = number(dst, `,"JobModifyIndex":`, j.specIndex)
	dst = append(dst, `,"JobSummary":`...)
	dst = j.summary(dst)
	if meta {
		dst = append(dst, `,"Meta":{"team":"checkout"}`...)
	}
	dst = number(dst, `,"ModifyIndex":`, j.index)
	dst = text(dst, `,"Multiregion":null,"Name":`, j.id)
	dst = append(dst, `,"Namespace":"default","NodePool":"default","ParameterizedJob":false,"ParentID":"","Periodic":false,"Priority":50,"Status":"running","StatusDescription":"","Stop":false`...)
	dst = number(dst, `,"SubmitTime":`, j.submitted.UnixNano())
	return append(dst, `,"Type":"service"}`...)
}

func (j *job) summary(dst []byte) []byte {
	var runs, starts, completes int
	for _, a := range j.allocs {
		switch a.client {
		case "running":
			runs++
		case "pending":
			starts++
		case "complete":
			completes++
		}
	}
	dst = number(dst, `{"Children":{"Dead":0,"Pending":0,"Running":0},"CreateIndex":`, j.createIndex)
	dst = text(dst, `,"JobID":`, j.id)
	dst = number(dst, `,"ModifyIndex":`, j.summaryIndex)
	dst = number(dst, `,"Namespace":"default","Summary":{"app":{"Complete":`, completes)
	dst = number(dst, `,"Failed":0,"Lost":0,"Queued":0,"Running":`, runs)
	dst = number(dst, `,"Starting":`, starts)
	return append(dst, `,"Unknown":0}}}`...)
}

// stub appends an allocation in the format of a list.
func (a *alloc) stub(dst []byte, of *job, with detail) []byte {
	dst = append(dst, '{')
	if with.resources {
		port := 20000 + (a.job*20+a.number)%12000
		dst = number(dst, `"AllocatedResources":{"Shared":{"DiskMB":300,"Networks":[{"DynamicPorts":[{"HostNetwork":"default","Label":"http","Value":`, port)
		dst = text(dst, `}],"IP":`, address(a.node))
		dst = text(dst, `}],"Ports":[{"HostIP":`, address(a.node))
		dst = number(dst, `,"Label":"http","Value":`, port)
		dst = append(dst, `}]},"TaskLifecycles":{"server":null},"Tasks":{"server":{"Cpu":{"CpuShares":100,"ReservedCores":null},"Devices":null,"Memory":{"MemoryMB":128,"MemoryMaxMB":0},"Networks":null}}},`...)
	}
	dst = text(dst, `"ClientDescription":`, a.describe())
	dst = text(dst, `,"ClientStatus":`, a.client)
	dst = number(dst, `,"CreateIndex":`, a.createIndex)
	dst = number(dst, `,"CreateTime":`, a.created.UnixNano())
	if a.healthIndex == 0 {
		dst = append(dst, `,"DeploymentStatus":null`...)
	} else {
		dst = number(dst, `,"DeploymentStatus":{"Canary":false,"Healthy":true,"ModifyIndex":`, a.healthIndex)
		dst = append(timestamp(append(dst, `,"Timestamp":`...), a.healthTime), '}')
	}
	description := ""
	if a.desired == "stop" {
		description = "alloc not needed due to job update"
	}
	dst = text(dst, `,"DesiredDescription":`, description)
	dst = text(dst, `,"DesiredStatus":`, a.desired)
	dst = append(dst, `,"DesiredTransition":{"ForceReschedule":null,"Migrate":null,"MigrateDisablePlacement":null,"NoShutdownDelay":null,"Reschedule":null}`...)
	dst = text(dst, `,"EvalID":`, a.eval)
	dst = text(dst, `,"FollowupEvalID":"","ID":`, a.id)
	dst = text(dst, `,"JobID":`, of.id)
	dst = number(dst, `,"JobType":"service","JobVersion":`, a.version)
	dst = number(dst, `,"ModifyIndex":`, a.index)
	dst = number(dst, `,"ModifyTime":`, a.modified.UnixNano())
	dst = text(dst, `,"Name":`, of.id)
	dst = number(dst[:len(dst)-1], `.app[`, a.number)
	dst = text(dst, `]","Namespace":"default","NextAllocation":"","NodeID":`, nodeID(a.node))
	dst = text(dst, `,"NodeName":`, nodeName(a.node))
	dst = append(dst, `,"PreemptedAllocations":null,"PreemptedByAllocation":"","RescheduleTracker":null,"TaskGroup":"app","TaskStates":`...)
	return append(a.states(dst, with), '}')
}

func (a *alloc) describe() string {
	switch {
	case a.client == "complete":
		return "All tasks have completed"
	case a.tasks == running:
		return "Tasks are running"
	case a.tasks == received:
		return "Tasks are running"
	}
	return ""
}

// states appends the task state and its events.
func (a *alloc) states(dst []byte, with detail) []byte {
	if !with.states || a.tasks == unreceived {
		return append(dst, `null`...)
	}
	dst = append(dst, `{"server":{"Events":[`...)
	for n, event := range events[:a.tasks] {
		if n > 0 {
			dst = append(dst, ',')
		}
		at := a.created.Add(time.Duration(n) * receiving / 2)
		if n >= running {
			at = a.ended
		}
		dst = append(dst, event.head...)
		dst = strconv.AppendInt(dst, at.UnixNano(), 10)
		dst = append(dst, event.tail...)
	}
	dst = append(dst, `],"Failed":false,"FinishedAt":`...)
	dst = timestamp(dst, a.ended)
	dst = append(dst, `,"LastRestart":null,"Paused":"","Restarts":0,"StartedAt":`...)
	dst = timestamp(dst, a.started)
	state := "running"
	switch a.tasks {
	case received:
		state = "pending"
	case ended:
		state = "dead"
	}
	return append(text(dst, `,"State":`, state), `}}`...)
}

// taskEvent is a task event without its time.
type taskEvent struct{ head, tail string }

// events lists the events of a task from start to end.
var events = [ended]taskEvent{
	newEvent("Received", "Task received by client", "", `{}`),
	newEvent("Task Setup", "Building Task Directory", "Building Task Directory", `{"message":"Building Task Directory"}`),
	newEvent("Started", "Task started by client", "", `{}`),
	newEvent("Killing", "Sent interrupt. Waiting 5s before force killing", "", `{"kill_timeout":"5s"}`),
	newEvent("Terminated", "Exit Code: 0", "", `{"exit_code":"0","exit_message":"","oom_killed":"false","signal":"0"}`),
	newEvent("Killed", "Task successfully killed", "", `{}`),
}

func newEvent(kind, display, message, details string) taskEvent {
	return taskEvent{
		head: fmt.Sprintf(`{"Details":%s,"DiskLimit":0,"DisplayMessage":%q,"DownloadError":"","DriverError":"","DriverMessage":"","ExitCode":0,"FailedSibling":"","FailsTask":false,`+
			`"GenericSource":"","KillError":"","KillReason":"","KillTimeout":0,"Message":%q,"RestartReason":"","SetupError":"","Signal":0,"StartDelay":0,"TaskSignal":"","TaskSignalReason":"","Time":`,
			details, display, message),
		tail: fmt.Sprintf(`,"Type":%q,"ValidationError":"","VaultError":""}`, kind),
	}
}

// stub appends the deployment of a job in the format of a list.
func (d *deployment) stub(dst []byte, of *job) []byte {
	dst = number(dst, `{"CreateIndex":`, d.createIndex)
	dst = number(dst, `,"CreateTime":`, d.created.UnixNano())
	dst = text(dst, `,"EvalPriority":50,"ID":`, d.id)
	dst = number(dst, `,"IsMultiregion":false,"JobCreateIndex":`, of.createIndex)
	dst = text(dst, `,"JobID":`, of.id)
	dst = number(dst, `,"JobModifyIndex":`, d.specIndex)
	dst = number(dst, `,"JobSpecModifyIndex":`, d.specIndex)
	dst = number(dst, `,"JobVersion":`, d.version)
	dst = number(dst, `,"ModifyIndex":`, d.index)
	dst = text(dst, `,"ModifyTime":0,"Namespace":"default","Status":`, d.status)
	description := "Deployment completed successfully"
	if d.status == "running" {
		description = "Deployment is running"
	}
	dst = text(dst, `,"StatusDescription":`, description)
	dst = number(dst, `,"TaskGroups":{"app":{"AutoPromote":false,"AutoRevert":false,"DesiredCanaries":0,"DesiredTotal":`, d.total)
	dst = number(dst, `,"HealthyAllocs":`, d.healthy)
	dst = number(dst, `,"PlacedAllocs":`, d.placed)
	dst = append(dst, `,"PlacedCanaries":null,"ProgressDeadline":600000000000,"Promoted":false,"RequireProgressBy":`...)
	dst = timestamp(dst, d.created.Add(10*time.Minute))
	return append(dst, `,"UnhealthyAllocs":0}}}`...)
}

// specification appends the complete job specification.
func (j *job) specification(dst []byte, period time.Duration) []byte {
	dst = number(dst, `{"Affinities":null,"AllAtOnce":false,"Constraints":null,"ConsulNamespace":"","CreateIndex":`, j.createIndex)
	dst = text(dst, `,"Datacenters":["*"],"DispatchIdempotencyToken":"","Dispatched":false,"ID":`, j.id)
	dst = number(dst, `,"JobModifyIndex":`, j.specIndex)
	dst = number(dst, `,"Meta":{"team":"checkout"},"ModifyIndex":`, j.index)
	dst = text(dst, `,"Multiregion":null,"Name":`, j.id)
	dst = append(dst, `,"Namespace":"default","NodePool":"default","NomadTokenID":"","ParameterizedJob":null,"ParentID":"","Payload":null,"Periodic":null,"Priority":50,"Region":"global","Spreads":null,"Stable":true,"Status":"running","StatusDescription":"","Stop":false`...)
	dst = number(dst, `,"SubmitTime":`, j.submitted.UnixNano())
	dst = number(dst, `,"TaskGroups":[{"Affinities":null,"Constraints":[{"LTarget":"${attr.nomad.service_discovery}","Operand":"=","RTarget":"true"}],"Consul":null,"Count":`, j.count)
	dst = append(dst, specificationGroup...)
	dst = j.policy(dst, period)
	dst = append(dst, specificationRest...)
	dst = number(dst, `,"Type":"service","UI":null,"Update":{"AutoPromote":false,"AutoRevert":false,"Canary":0,"HealthCheck":"","HealthyDeadline":0,"MaxParallel":1,"MinHealthyTime":0,"ProgressDeadline":0,"Stagger":30000000000},"VaultNamespace":"","Version":`, j.version)
	return append(dst, `,"VersionTag":null}`...)
}

const (
	specificationGroup = `,"Disconnect":null,"EphemeralDisk":{"Migrate":false,"SizeMB":300,"Sticky":false},"MaxClientDisconnect":null,"Meta":null,"Migrate":{"HealthCheck":"checks","HealthyDeadline":300000000000,"MaxParallel":1,"MinHealthyTime":10000000000},` +
		`"Name":"app","Networks":[{"DynamicPorts":[{"HostNetwork":"default","Label":"http"}]}],"PreventRescheduleOnLost":false,"ReschedulePolicy":{"Attempts":0,"Delay":30000000000,"DelayFunction":"exponential","Interval":0,"MaxDelay":3600000000000,"Unlimited":true},` +
		`"RestartPolicy":{"Attempts":2,"Delay":15000000000,"Interval":1800000000000,"Mode":"fail","RenderTemplates":false},"Scaling":`
	specificationRest = `,"Services":[{"Address":"","AddressMode":"auto","CanaryMeta":null,"CanaryTags":null,"Checks":null,"Cluster":"default","Connect":null,"EnableTagOverride":false,"Identity":null,"Kind":"","Meta":null,"Name":"shop","Namespace":"default",` +
		`"OnUpdate":"require_healthy","PortLabel":"http","Provider":"nomad","TaggedAddresses":null,"Tags":null,"TaskName":"","Weights":null}],"ShutdownDelay":null,"Spreads":null,"StopAfterClientDisconnect":null,` +
		`"Tasks":[{"Actions":null,"Affinities":null,"Artifacts":null,"CSIPluginConfig":null,"Config":{"image":"registry.example.com/shop/server:1.42.0","ports":["http"]},"Constraints":null,"Consul":null,"DispatchPayload":null,"Driver":"docker","Env":null,"Identities":null,` +
		`"Identity":{"Audience":["nomadproject.io"],"ChangeMode":"","ChangeSignal":"","Env":false,"File":false,"Filepath":"","Name":"default","ServiceName":"","TTL":0},"KillSignal":"","KillTimeout":5000000000,"Kind":"","Leader":false,"Lifecycle":null,` +
		`"LogConfig":{"Disabled":false,"MaxFileSizeMB":10,"MaxFiles":10},"Meta":null,"Name":"server","Resources":{"CPU":100,"Cores":0,"Devices":null,"DiskMB":0,"IOPS":0,"MemoryMB":128,"MemoryMaxMB":0,"NUMA":null,"Networks":null,"SecretsMB":0},` +
		`"RestartPolicy":{"Attempts":2,"Delay":15000000000,"Interval":1800000000000,"Mode":"fail","RenderTemplates":false},"ScalingPolicies":null,"Schedule":null,"Secrets":null,"Services":null,"ShutdownDelay":0,"Templates":[{"ChangeMode":"restart","ChangeScript":null,` +
		`"ChangeSignal":"","DestPath":"local/x","EmbeddedTmpl":"x","Envvars":false,"ErrMissingKey":false,"Gid":null,"LeftDelim":"{{","Once":false,"Perms":"0644","RightDelim":"}}","SourcePath":"","Splay":5000000000,"Uid":null,"VaultGrace":0,"Wait":null}],` +
		`"User":"","Vault":null,"VolumeMounts":null}],"Update":{"AutoPromote":false,"AutoRevert":false,"Canary":0,"HealthCheck":"checks","HealthyDeadline":300000000000,"MaxParallel":1,"MinHealthyTime":1000000000,"ProgressDeadline":600000000000,"Stagger":30000000000},"Volumes":null}]`
)

// policy appends the scaling policy of a job's group, which nomad-autoscaler uses.
func (j *job) policy(dst []byte, period time.Duration) []byte {
	dst = number(dst, `{"CreateIndex":`, j.createIndex)
	dst = text(dst, `,"Enabled":true,"ID":`, policyID(j.number))
	dst = number(dst, `,"Max":20,"Min":1,"ModifyIndex":`, j.createIndex)
	dst = text(dst, `,"Policy":{"evaluation_interval":`, period.String())
	dst = strconv.AppendQuote(append(dst, `,"check":[{"load":[{"source":"prometheus","strategy":[{"pass-through":[{}]}],"query":`...), Load(j.number)+" / "+strconv.Itoa(PerInstance))
	dst = text(dst, `}]}],"cooldown":"1s"},"Target":{"Namespace":"default","Job":`, j.id)
	return append(dst, `,"Group":"app"},"Type":"horizontal"}`...)
}

// policyStub appends the policy in the format of a list.
func (j *job) policyStub(dst []byte) []byte {
	dst = number(dst, `{"CreateIndex":`, j.createIndex)
	dst = text(dst, `,"Enabled":true,"ID":`, policyID(j.number))
	dst = number(dst, `,"ModifyIndex":`, j.createIndex)
	dst = text(dst, `,"Target":{"Namespace":"default","Job":`, j.id)
	return append(dst, `,"Group":"app"},"Type":"horizontal"}`...)
}

// scaleStatus appends the scale status of a job.
func (j *job) scaleStatus(dst []byte) []byte {
	var placed, runs, well, unwell int
	for _, a := range j.allocs {
		if a.client == "complete" || a.desired != "run" {
			continue
		}
		placed++
		if a.client == "running" {
			runs++
		}
		if a.healthIndex > 0 {
			well++
		}
	}
	dst = number(dst, `{"JobCreateIndex":`, j.createIndex)
	dst = text(dst, `,"JobID":`, j.id)
	dst = number(dst, `,"JobModifyIndex":`, j.index)
	dst = number(dst, `,"JobStopped":false,"Namespace":"default","TaskGroups":{"app":{"Desired":`, j.count)
	dst = append(dst, `,"Events":`...)
	if len(j.scalings) == 0 {
		dst = append(dst, `null`...)
	} else {
		dst = append(dst, '[')
		for n, s := range j.scalings {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = s.event(dst)
		}
		dst = append(dst, ']')
	}
	dst = number(dst, `,"Healthy":`, well)
	dst = number(dst, `,"Placed":`, placed)
	dst = number(dst, `,"Running":`, runs)
	dst = number(dst, `,"Unhealthy":`, unwell)
	return append(dst, `}}}`...)
}

func (s scaling) event(dst []byte) []byte {
	dst = number(dst, `{"Count":`, s.count)
	dst = number(dst, `,"CreateIndex":`, s.index)
	dst = text(dst, `,"Error":false,"EvalID":`, s.eval)
	dst = append(append(dst, `,"Message":`...), strconv.Quote(s.message)...)
	dst = append(append(dst, `,"Meta":`...), s.meta...)
	dst = number(dst, `,"PreviousCount":`, s.previous)
	dst = number(dst, `,"Time":`, s.time.UnixNano())
	return append(dst, '}')
}

func nodeID(n int) string { return nodeNames[n].id }

func nodeName(n int) string { return nodeNames[n].name }

func address(n int) string { return nodeNames[n].address }

type nodeNamed struct{ id, name, address string }

var nodeNames = func() (names [nodes]nodeNamed) {
	for n := range names {
		names[n] = nodeNamed{fmt.Sprintf("a0635907-56a5-a447-a047-%012x", n), fmt.Sprintf("client-%02d", n), fmt.Sprintf("10.0.%d.%d", n/256, n%256+1)}
	}
	return names
}()

// policyPrefix is the prefix of scaling policy IDs. The job number follows.
const policyPrefix = "288b0641-4e16-4912-794d-"

func policyID(job int) string { return fmt.Sprintf("%s%012x", policyPrefix, job) }

// nodeStub appends a node in the format of a list.
func nodeStub(dst []byte, n int, created time.Time, resources bool) []byte {
	dst = text(dst, `{"Address":`, address(n))
	dst = append(append(append(dst, `,"CreateIndex":8,"Datacenter":"dc1","Drain":false,"Drivers":`...), drivers(created)...), `,"HostVolumes":{}`...)
	dst = append(text(text(dst, `,"ID":`, nodeID(n)), `,"LastDrain":null,"ModifyIndex":10,"Name":`, nodeName(n)), `,"NodeClass":"","NodePool":"default"`...)
	if resources {
		dst = append(append(dst, `,"NodeResources":`...), nodeResources...)
		dst = append(dst, `,"ReservedResources":{"Cpu":{"CpuShares":0},"Disk":{"DiskMB":0},"Memory":{"MemoryMB":0},"Networks":{"ReservedHostPorts":""}}`...)
	}
	return append(dst, `,"SchedulingEligibility":"eligible","Status":"ready","StatusDescription":"","Version":"1.11.2"}`...)
}

func drivers(created time.Time) string {
	return `{"docker":{"Attributes":{"driver.docker":"true","driver.docker.version":"28.5.2"},"Detected":true,"HealthDescription":"Healthy","Healthy":true,"UpdateTime":` + string(timestamp(nil, created)) + `}}`
}

const nodeResources = `{"Cpu":{"CpuShares":16000,"ReservableCpuCores":[0,1,2,3,4,5,6,7],"TotalCpuCores":8},"Devices":null,"Disk":{"DiskMB":200000},"MaxDynamicPort":32000,"Memory":{"MemoryMB":64000},"MinDynamicPort":20000,"Networks":[{"Device":"eth0","IP":"10.0.0.1","MBits":1000,"Mode":"host"}]}`
