package azuretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7/fake"
)

// call is a request to the compute API.
type call struct {
	server  *Server
	request *http.Request
	// operation is the ID of the long-running operation that the call started, or "".
	operation string
}

// transport returns the SDK's fake server for an operation, which decodes requests and encodes
// responses.
func (c *call) transport(api string) azpolicy.Transporter {
	client, _, _ := strings.Cut(api, ".")
	switch client {
	case "VirtualMachineScaleSetVMsClient":
		return fake.NewVirtualMachineScaleSetVMsServerTransport(&fake.VirtualMachineScaleSetVMsServer{NewListPager: c.listMembers})
	case "VirtualMachinesClient":
		return fake.NewVirtualMachinesServerTransport(&fake.VirtualMachinesServer{NewListPager: c.listMachines})
	case "VirtualMachineScaleSetRollingUpgradesClient":
		return fake.NewVirtualMachineScaleSetRollingUpgradesServerTransport(&fake.VirtualMachineScaleSetRollingUpgradesServer{GetLatest: c.latestUpgrade})
	}
	return fake.NewVirtualMachineScaleSetsServerTransport(&fake.VirtualMachineScaleSetsServer{
		NewListAllPager: c.listAll, NewListPager: c.list, Get: c.get, BeginUpdate: c.update, BeginDeleteInstances: c.deleteInstances,
	})
}

// page returns the bounds of a page in a list of entries, and the link to the next page or nil.
func (c *call) page(entries int) (from, to int, next *string) {
	query := c.request.URL.Query()
	from, _ = strconv.Atoi(query.Get("$skiptoken"))
	from = min(max(from, 0), entries)
	to = min(from+c.server.page, entries)
	if to == entries {
		return from, to, nil
	}
	query.Set("$skiptoken", strconv.Itoa(to))
	link := *c.request.URL
	link.RawQuery = query.Encode()
	text := link.String()
	return from, to, &text
}

// listed returns one page of the sets of a resource group or of the subscription.
func (c *call) listed(group string) ([]*armcompute.VirtualMachineScaleSet, *string) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		if group == "" || strings.EqualFold(s.sets[name].Group, group) {
			names = append(names, name)
		}
	}
	from, to, next := c.page(len(names))
	found := make([]*armcompute.VirtualMachineScaleSet, 0, to-from)
	for _, name := range names[from:to] {
		view := s.view(s.sets[name], time.Now())
		if lied := s.lied(name); lied != nil && lied.capacity >= 0 {
			view.SKU.Capacity = new(int64(lied.capacity))
		}
		if s.sets[name].Unlisted {
			view.Etag = nil
		}
		found = append(found, view)
	}
	return found, next
}

// lied returns the false values that a read of a set or its machines must return, or nil.
func (s *Server) lied(name string) *lie {
	for i, each := range s.lies {
		if each.set != name {
			continue
		}
		each.reads--
		if each.reads == 0 {
			s.lies = slices.Delete(s.lies, i, i+1)
		}
		return each
	}
	return nil
}

func (c *call) listAll(_ *armcompute.VirtualMachineScaleSetsClientListAllOptions) (answer azfake.PagerResponder[armcompute.VirtualMachineScaleSetsClientListAllResponse]) {
	var page armcompute.VirtualMachineScaleSetsClientListAllResponse
	page.Value, page.NextLink = c.listed("")
	answer.AddPage(http.StatusOK, page, nil)
	return answer
}

func (c *call) list(group string, _ *armcompute.VirtualMachineScaleSetsClientListOptions) (answer azfake.PagerResponder[armcompute.VirtualMachineScaleSetsClientListResponse]) {
	var page armcompute.VirtualMachineScaleSetsClientListResponse
	page.Value, page.NextLink = c.listed(group)
	answer.AddPage(http.StatusOK, page, nil)
	return answer
}

// view converts a set to Azure's API type.
func (s *Server) view(set *Set, now time.Time) *armcompute.VirtualMachineScaleSet {
	set.settle(now)
	mode := armcompute.OrchestrationModeUniform
	if set.Flexible {
		mode = armcompute.OrchestrationModeFlexible
	}
	profile := &armcompute.VirtualMachineScaleSetVMProfile{
		OSProfile: &armcompute.VirtualMachineScaleSetOSProfile{ComputerNamePrefix: &set.Name},
	}
	if set.Monitored {
		profile.ExtensionProfile = &armcompute.VirtualMachineScaleSetExtensionProfile{Extensions: []*armcompute.VirtualMachineScaleSetExtension{{
			Name: new("health"),
			Properties: &armcompute.VirtualMachineScaleSetExtensionProperties{
				Publisher: new("Microsoft.ManagedServices"), Type: new("ApplicationHealthLinux"),
			},
		}}}
	}
	upgrade := armcompute.UpgradeModeManual
	if set.Rolling {
		upgrade = armcompute.UpgradeModeRolling
	}
	view := &armcompute.VirtualMachineScaleSet{
		ID: new(setID(set)), Name: &set.Name, Type: new("Microsoft.Compute/virtualMachineScaleSets"), Location: new("westeurope"),
		SKU: &armcompute.SKU{Name: new("Standard_D2s_v5"), Tier: new("Standard"), Capacity: new(int64(set.Capacity))},
		Properties: &armcompute.VirtualMachineScaleSetProperties{
			ProvisioningState: new(set.state(now)), OrchestrationMode: &mode, SinglePlacementGroup: &set.SinglePlacement,
			Overprovision: new(false), VirtualMachineProfile: profile, UpgradePolicy: &armcompute.UpgradePolicy{Mode: &upgrade},
		},
		Etag: new(fmt.Sprintf("%q", strconv.Itoa(set.etag))),
	}
	if set.Unsized {
		view.SKU, view.Properties.VirtualMachineProfile = nil, nil
	}
	if set.Silent {
		view.Etag = nil
	}
	return view
}

func setID(set *Set) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachineScaleSets/%s", Subscription, set.Group, set.Name)
}

// found returns a set, or an error if the set does not exist.
func (s *Server) found(group, name string) (*Set, error) {
	set := s.sets[keyOf(group, name)]
	if set == nil {
		return nil, &apiError{
			status: http.StatusNotFound, code: "ResourceNotFound",
			message: fmt.Sprintf("The Resource 'Microsoft.Compute/virtualMachineScaleSets/%s' op resource group '%s' was not found.", name, group),
		}
	}
	return set, nil
}

func (c *call) get(_ context.Context, group, name string, _ *armcompute.VirtualMachineScaleSetsClientGetOptions) (answer azfake.Responder[armcompute.VirtualMachineScaleSetsClientGetResponse], failed azfake.ErrorResponder) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	set, err := c.server.found(group, name)
	if err != nil {
		failed.SetError(err)
		return answer, failed
	}
	view := c.server.view(set, time.Now())
	answer.SetResponse(http.StatusOK, armcompute.VirtualMachineScaleSetsClientGetResponse{VirtualMachineScaleSet: *view}, nil)
	return answer, failed
}

func (c *call) update(_ context.Context, group, name string, parameters armcompute.VirtualMachineScaleSetUpdate, options *armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions) (answer azfake.PollerResponder[armcompute.VirtualMachineScaleSetsClientUpdateResponse], failed azfake.ErrorResponder) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	ifMatch := ""
	if options != nil && options.IfMatch != nil {
		ifMatch = *options.IfMatch
	}
	set, err := c.changed(group, name, ifMatch)
	if err == nil {
		err = c.resize(set, parameters)
	}
	if err != nil {
		failed.SetError(err)
		return answer, failed
	}
	view := c.server.view(set, time.Now())
	view.Properties.ProvisioningState = new("Updating") // Azure never completes a change immediately
	answer.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachineScaleSetsClientUpdateResponse{VirtualMachineScaleSet: *view}, nil)
	return answer, failed
}

// changed returns the set that a call changes, or an error. An empty ETag matches any version.
func (c *call) changed(group, name, ifMatch string) (*Set, error) {
	set, err := c.server.found(group, name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	set.settle(now)
	switch {
	case ifMatch != "" && ifMatch != fmt.Sprintf("%q", strconv.Itoa(set.etag)):
		return nil, &apiError{status: http.StatusPreconditionFailed, code: "ConditionNotMet", message: "The condition specified by the If-Match header was not met."}
	case set.Deleting:
		return nil, &apiError{
			status: http.StatusConflict, code: "OperationNotAllowed",
			message: fmt.Sprintf("Operation 'update' is not allowed on VM Scale Set '%s' since the VM Scale Set is marked for deletion.", set.Name),
		}
	case set.RefusesWhileBusy && set.state(now) == "Updating":
		return nil, &apiError{
			status: http.StatusConflict, code: "Conflict",
			message: "The request failed due to conflict with a concurrent request.",
		}
	}
	return set, nil
}

// resize changes the capacity of a set.
func (c *call) resize(set *Set, parameters armcompute.VirtualMachineScaleSetUpdate) error {
	if parameters.SKU == nil || parameters.SKU.Capacity == nil || parameters.SKU.Name == nil {
		return &apiError{status: http.StatusBadRequest, code: "InvalidParameter", message: "Required parameter 'sku' is missing (null)."}
	}
	capacity := int(*parameters.SKU.Capacity)
	switch most := 1000; {
	case set.SinglePlacement && capacity > 100, capacity > most, capacity < 0:
		return &apiError{
			status: http.StatusBadRequest, code: "InvalidParameter",
			message: "The value of parameter sku.capacity is not allowed: a scale set with singlePlacementGroup has at most 100 virtual machines, others have at most 1000.",
		}
	}
	grows := capacity > set.Capacity
	set.Capacity = capacity
	set.failure = ""
	set.etag++
	set.settle(time.Now())
	c.begin(set, grows)
	return nil
}

// begin starts a long-running operation on a set.
func (c *call) begin(set *Set, grows bool) {
	op := &operation{set: keyOf(set.Group, set.Name)}
	if grows {
		op.failure = set.FailAllocation
	}
	c.operation = fmt.Sprintf("op-%d", len(c.server.operations)+1)
	c.server.operations[c.operation] = op
}

func (c *call) deleteInstances(_ context.Context, group, name string, ids armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs, _ *armcompute.VirtualMachineScaleSetsClientBeginDeleteInstancesOptions) (answer azfake.PollerResponder[armcompute.VirtualMachineScaleSetsClientDeleteInstancesResponse], failed azfake.ErrorResponder) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	set, err := c.changed(group, name, "")
	if err == nil {
		err = set.take(ids.InstanceIDs)
	}
	if err != nil {
		failed.SetError(err)
		return answer, failed
	}
	c.begin(set, false)
	answer.SetTerminalResponse(http.StatusAccepted, armcompute.VirtualMachineScaleSetsClientDeleteInstancesResponse{}, nil)
	return answer, failed
}

// take deletes machines by their handles and lowers the capacity.
func (s *Set) take(handles []*string) error {
	var victims []*Machine
	for _, handle := range handles {
		at := slices.IndexFunc(s.Machines, func(m *Machine) bool { return handle != nil && s.handle(m) == *handle && m.Gone.IsZero() })
		if at < 0 {
			return &apiError{status: http.StatusBadRequest, code: "InvalidParameter", message: "The provided instanceId is not an active Virtual Machine Scale Set VM instanceId."}
		}
		if s.Machines[at].Protected {
			return &apiError{status: http.StatusConflict, code: "OperationNotAllowed", message: "The virtual machine is protected from scale set actions."}
		}
		victims = append(victims, s.Machines[at])
	}
	now := time.Now()
	for _, victim := range victims {
		victim.Gone = now.Add(s.DeleteDelay)
	}
	s.Capacity -= len(victims)
	s.etag++
	s.settle(now)
	return nil
}

func (c *call) listMembers(group, name string, options *armcompute.VirtualMachineScaleSetVMsClientListOptions) (answer azfake.PagerResponder[armcompute.VirtualMachineScaleSetVMsClientListResponse]) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	set, err := c.server.found(group, name)
	if err == nil && set.Flexible {
		err = &apiError{status: http.StatusBadRequest, code: "OperationNotAllowed", message: "The operation is not supported on a scale set with flexible orchestration mode."}
	}
	if err != nil {
		answer.AddError(err)
		return answer
	}
	now := time.Now()
	set.settle(now)
	machines := c.server.shown(set)
	var page armcompute.VirtualMachineScaleSetVMsClientListResponse
	from, to, next := c.page(len(machines))
	page.NextLink = next
	page.Value = []*armcompute.VirtualMachineScaleSetVM{}
	viewed := options != nil && options.Expand != nil && strings.EqualFold(*options.Expand, "instanceView")
	for _, m := range machines[from:to] {
		page.Value = append(page.Value, set.member(m, viewed, now))
	}
	answer.AddPage(http.StatusOK, page, nil)
	return answer
}

// shown returns the machines that a list call returns. Lie can change their number.
func (s *Server) shown(set *Set) []*Machine {
	lied := s.lied(keyOf(set.Group, set.Name))
	if lied == nil || lied.count < 0 {
		return set.Machines
	}
	return set.Machines[:min(lied.count, len(set.Machines))]
}

// member converts a machine of a Uniform set to Azure's API type.
func (s *Set) member(m *Machine, viewed bool, now time.Time) *armcompute.VirtualMachineScaleSetVM {
	vm := &armcompute.VirtualMachineScaleSetVM{
		ID: new(s.machineID(m)), Name: new(s.ID(m)), InstanceID: new(strconv.Itoa(m.Number)), Location: new("westeurope"),
		Zones: []*string{new("1")}, Tags: map[string]*string{"role": new("worker")},
		Properties: &armcompute.VirtualMachineScaleSetVMProperties{
			ProvisioningState: new(m.state(now)), TimeCreated: &m.Created, LatestModelApplied: new(!m.Outdated),
			VMID:      new(fmt.Sprintf("00000000-0000-4000-8000-%012d", m.Number)),
			OSProfile: &armcompute.OSProfile{ComputerName: new(s.Host(m))},
		},
	}
	if m.Protected {
		vm.Properties.ProtectionPolicy = &armcompute.VirtualMachineScaleSetVMProtectionPolicy{ProtectFromScaleIn: new(true)}
	}
	if viewed {
		statuses, health := s.statuses(m, now)
		vm.Properties.InstanceView = &armcompute.VirtualMachineScaleSetVMInstanceView{Statuses: statuses, VMHealth: health}
	}
	return vm
}

// machineID returns the resource ID of a machine.
func (s *Set) machineID(m *Machine) string {
	if s.Flexible {
		return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/%s", Subscription, s.Group, s.ID(m))
	}
	return setID(s) + "/virtualMachines/" + strconv.Itoa(m.Number)
}

// statuses returns the instance view of a machine.
func (s *Set) statuses(m *Machine, now time.Time) ([]*armcompute.InstanceViewStatus, *armcompute.VirtualMachineHealthStatus) {
	provisioning := "ProvisioningState/" + strings.ToLower(m.state(now))
	status := &armcompute.InstanceViewStatus{Code: &provisioning, Level: new(armcompute.StatusLevelTypesInfo), Time: &m.Created}
	if m.Failure != "" {
		provisioning += "/" + m.Failure
		status.Message, status.Level = new(failureMessage(m.Failure)), new(armcompute.StatusLevelTypesError)
	}
	statuses := []*armcompute.InstanceViewStatus{status}
	if power := m.power(now); power != "" {
		statuses = append(statuses, &armcompute.InstanceViewStatus{Code: new("PowerState/" + power), Level: new(armcompute.StatusLevelTypesInfo)})
	}
	if !s.Monitored || m.power(now) != "running" {
		return statuses, nil
	}
	health := m.Health
	if health == "" {
		health = "healthy"
		if now.Before(m.health) {
			health = "initializing"
		}
	}
	return statuses, &armcompute.VirtualMachineHealthStatus{Status: &armcompute.InstanceViewStatus{Code: new("HealthState/" + health)}}
}

// failureMessage returns Azure's message for an allocation failure.
func failureMessage(code string) string {
	return code + ". Allocation failed. We do not have sufficient capacity for the requested VM size in this region."
}

func (c *call) listMachines(group string, options *armcompute.VirtualMachinesClientListOptions) (answer azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	set, viewed, err := c.filtered(group, options)
	if err != nil {
		answer.AddError(err)
		return answer
	}
	now := time.Now()
	set.settle(now)
	machines := c.server.shown(set)
	var page armcompute.VirtualMachinesClientListResponse
	from, to, next := c.page(len(machines))
	page.NextLink = next
	page.Value = []*armcompute.VirtualMachine{}
	for _, m := range machines[from:to] {
		page.Value = append(page.Value, set.machine(m, viewed, now))
	}
	answer.AddPage(http.StatusOK, page, nil)
	return answer
}

// filtered returns the Flexible set that the filter of a machine list selects.
func (c *call) filtered(group string, options *armcompute.VirtualMachinesClientListOptions) (*Set, bool, error) {
	if options == nil || options.Filter == nil {
		return nil, false, errors.New("lists of machines without a filter are not implemented")
	}
	id, ok := strings.CutPrefix(*options.Filter, "'virtualMachineScaleSet/id' eq '")
	id, closed := strings.CutSuffix(id, "'")
	if !ok || !closed {
		return nil, false, &apiError{status: http.StatusBadRequest, code: "InvalidFilter", message: "The filter " + *options.Filter + " cannot be read."}
	}
	for _, set := range c.server.sets {
		if strings.EqualFold(setID(set), id) && strings.EqualFold(set.Group, group) && set.Flexible {
			viewed := options.Expand != nil && *options.Expand == armcompute.ExpandTypeForListVMsInstanceView
			return set, viewed, nil
		}
	}
	return nil, false, &apiError{status: http.StatusNotFound, code: "ResourceNotFound", message: "The scale set of the filter was not found."}
}

// machine converts a machine of a Flexible set to Azure's API type.
func (s *Set) machine(m *Machine, viewed bool, now time.Time) *armcompute.VirtualMachine {
	vm := &armcompute.VirtualMachine{
		ID: new(s.machineID(m)), Name: new(s.ID(m)), Location: new("westeurope"), Tags: map[string]*string{"role": new("worker")},
		Properties: &armcompute.VirtualMachineProperties{
			ProvisioningState: new(m.state(now)), TimeCreated: &m.Created,
			VirtualMachineScaleSet: &armcompute.SubResource{ID: new(setID(s))},
			OSProfile:              &armcompute.OSProfile{ComputerName: new(s.Host(m))},
		},
	}
	if viewed {
		statuses, health := s.statuses(m, now)
		vm.Properties.InstanceView = &armcompute.VirtualMachineInstanceView{Statuses: statuses, VMHealth: health, IsVMInStandbyPool: &m.Standby}
	}
	return vm
}

func (c *call) latestUpgrade(_ context.Context, group, name string, _ *armcompute.VirtualMachineScaleSetRollingUpgradesClientGetLatestOptions) (answer azfake.Responder[armcompute.VirtualMachineScaleSetRollingUpgradesClientGetLatestResponse], failed azfake.ErrorResponder) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	set, err := c.server.found(group, name)
	if err == nil && !set.Rolling {
		err = &apiError{status: http.StatusNotFound, code: "NotFound", message: "There is no rolling upgrade."}
	}
	if err != nil {
		failed.SetError(err)
		return answer, failed
	}
	code := armcompute.RollingUpgradeStatusCodeCompleted
	if set.Upgrading {
		code = armcompute.RollingUpgradeStatusCodeRollingForward
	}
	answer.SetResponse(http.StatusOK, armcompute.VirtualMachineScaleSetRollingUpgradesClientGetLatestResponse{
		RollingUpgradeStatusInfo: armcompute.RollingUpgradeStatusInfo{
			Location: new("westeurope"),
			Properties: &armcompute.RollingUpgradeStatusInfoProperties{
				RunningStatus: &armcompute.RollingUpgradeRunningStatus{Code: &code},
				Progress:      &armcompute.RollingUpgradeProgressInfo{SuccessfulInstanceCount: new(int32(1)), PendingInstanceCount: new(int32(2))},
			},
		},
	}, nil)
	return answer, failed
}
