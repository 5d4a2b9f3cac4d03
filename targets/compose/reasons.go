package compose

import "github.com/hpad/hpad/policy"

// The reasons of holds and errors.
const (
	// ComposeUpdateInProgress: Compose is replacing containers of the service.
	ComposeUpdateInProgress = "ComposeUpdateInProgress"
	// ServiceStopped: all containers of the service were stopped, and not by hpad.
	ServiceStopped = "ServiceStopped"
	// DependencyNotReady: a service in depends_on does not meet its condition.
	DependencyNotReady = "DependencyNotReady"
	// TemplateUnusable: at 0 replicas, an object is missing that a new replica needs.
	TemplateUnusable = "TemplateUnusable"
	// NoTemplate: the settings for a start from 0 replicas cannot be stored.
	NoTemplate = "NoTemplate"
	// FixedContainerName: the service has a container_name.
	FixedContainerName = "FixedContainerName"
	// StaticHostPort: the service publishes a single host port.
	StaticHostPort = "StaticHostPort"
	// StaticIP: the service has a fixed address.
	StaticIP = "StaticIP"
	// SharedNetwork: the service uses the network of another container.
	SharedNetwork = "SharedNetwork"
	// ServiceNotFound: the service has no container, and hpad has not scaled it to 0.
	ServiceNotFound = "ServiceNotFound"
	// ProjectRemoved: the project no longer exists.
	ProjectRemoved = "ProjectRemoved"
	// ImageNotFound: the image of the service no longer exists.
	ImageNotFound = "ImageNotFound"
	// StartFailed: a new container could not be created or started.
	StartFailed = "StartFailed"
)

// The conditions of services.
const (
	// ObsoleteReplicas: hpad created replicas with the previous configuration while Compose
	// renewed the service.
	ObsoleteReplicas policy.ConditionType = "ObsoleteReplicas"
	// ContainersRestarted: hpad has restarted failed containers.
	ContainersRestarted policy.ConditionType = "ContainersRestarted"
	// ContainersReplaced: hpad has replaced containers that failed repeatedly.
	ContainersReplaced policy.ConditionType = "ContainersReplaced"
	// ContainersFailing: containers have ended by themselves, or restart again and again.
	ContainersFailing policy.ConditionType = "ContainersFailing"
)
