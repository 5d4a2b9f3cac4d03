package compose

import "github.com/hpad/hpad/policy"

// The reasons of holds, of targets that cannot be scaled, of refused writes and
// of notices.
const (
	// ComposeUpdateInProgress: Compose is replacing containers of the service.
	ComposeUpdateInProgress = "ComposeUpdateInProgress"
	// ServiceStopped: somebody else has stopped all containers of the service.
	ServiceStopped = "ServiceStopped"
	// DependencyNotReady: a service that the service depends on is not running, or
	// not healthy, as depends_on asks.
	DependencyNotReady = "DependencyNotReady"
	// TemplateUnusable: at 0 replicas something is missing that a new one needs.
	TemplateUnusable = "TemplateUnusable"
	// NoTemplate: what it takes to start again from 0 replicas could not be kept.
	NoTemplate = "NoTemplate"
	// FixedContainerName: the service names its only container.
	FixedContainerName = "FixedContainerName"
	// StaticHostPort: the service binds one port of the host.
	StaticHostPort = "StaticHostPort"
	// StaticIP: the service has a fixed address.
	StaticIP = "StaticIP"
	// SharedNetwork: the service uses the network of another container.
	SharedNetwork = "SharedNetwork"
	// ServiceNotFound: no container of the service is there, nor known of.
	ServiceNotFound = "ServiceNotFound"
	// ProjectRemoved: the whole project is gone.
	ProjectRemoved = "ProjectRemoved"
	// ImageNotFound: the image of the service is gone.
	ImageNotFound = "ImageNotFound"
	// StartFailed: a new container could not be created or started.
	StartFailed = "StartFailed"
)

// ObsoleteReplicas is the condition of a service that Compose has renewed while
// hpad made replicas of it, which have the configuration of before.
const ObsoleteReplicas policy.ConditionType = "ObsoleteReplicas"

// ContainersRestarted is the condition of a service with containers that had failed,
// and that hpad has started again.
const ContainersRestarted policy.ConditionType = "ContainersRestarted"

// ContainersReplaced is the condition of a service with containers that hpad has made
// in the place of others, which failed again and again.
const ContainersReplaced policy.ConditionType = "ContainersReplaced"

// ContainersFailing is the condition of a service with containers that ended by
// themselves, or restart again and again.
const ContainersFailing policy.ConditionType = "ContainersFailing"
