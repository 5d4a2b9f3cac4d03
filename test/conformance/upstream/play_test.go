// This file becomes a part of the package of the upstream controller when
// test/install/conformance.sh builds it. It runs the whole controller, as
// kube-controller-manager builds it, through scenarios of package sim.

package podautoscaler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	k8serrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	v2defaults "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	cmapi "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emapi "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsapi "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"

	"github.com/hpad/hpad/test/conformance/sim"
)

var (
	inFile  = flag.String("in", "", "file with the scenarios")
	outFile = flag.String("out", "", "file for the results")
)

const uNS = "fleet"

func TestPlay(t *testing.T) {
	if *inFile == "" {
		t.Skip("-in is not set")
	}
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
	out, err := sim.Create(*outFile)
	if err != nil {
		t.Fatal(err)
	}
	err = sim.Each(*inFile, func(s *sim.Scenario) error { return out.Write(playUpstream(t, s)) })
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

func playUpstream(t *testing.T, s *sim.Scenario) (played sim.Played) {
	played.Name = s.Name
	defer func() {
		if r := recover(); r != nil {
			played.Error = fmt.Sprint("panic: ", r)
			fmt.Fprintln(os.Stderr, s.Name, played.Error)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		sim.Begin()
		u := newUpstream(t, s)
		u.live()
		played.Lines = u.lines
	})
	return played
}

// upstream is the controller with its environment.
type upstream struct {
	t     *testing.T
	s     *sim.Scenario
	world *sim.World
	ctl   *HorizontalController
	ctx   context.Context
	api   *uAPI
	hpas  cache.SharedIndexInformer
	// client is the real metrics client. The metrics APIs behind it are simulated.
	client metricsclient.MetricsClient

	// turn guards evaluation, which is the current one, and all fields that it changes. An
	// evaluation releases it while its write waits.
	turn sync.Mutex
	*evaluation
	lines []sim.Line
	// edited is the set of autoscalers that changed since their last evaluation, and known is the
	// set of autoscalers that the controller has evaluated.
	edited, known map[string]bool
	// config contains the current settings.
	config sim.Config
	// dates contains the times of instances as hpad derives them, see dated.
	dates map[date]sim.Dur
}

// date is a time of an instance that one run of hpad reads.
type date struct {
	run int
	id  string
	at  sim.Dur
}

// evaluation is one evaluation of one autoscaler.
type evaluation struct {
	key string
	// late is the time from the start to the write.
	late   sim.Dur
	began  sim.Dur
	events []string
	failed bool
	said   []string
	metric string
}

func newUpstream(t *testing.T, s *sim.Scenario) *upstream {
	u := &upstream{t: t, s: s, world: sim.NewWorld(s, time.Now()), edited: map[string]bool{}, known: map[string]bool{}, dates: map[date]sim.Dur{}, config: s.Config}
	if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("HPAScaleToZero=%v", s.Config.ScaleToZero)); err != nil {
		panic(err)
	}
	ctx := klog.NewContext(context.Background(), logr.Discard())
	u.ctx = ctx
	u.api = &uAPI{u: u, objects: map[string]*autoscalingv2.HorizontalPodAutoscaler{}}
	u.hpas = cache.NewSharedIndexInformer(u.api, &autoscalingv2.HorizontalPodAutoscaler{}, 12*time.Hour, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	u.client = uMetrics{metricsclient.NewRESTMetricsClient(uResource{u}, uCustom{u}, uExternal{u}), u}
	return u
}

// begin builds the controller in the same way as kube-controller-manager.
func (u *upstream) begin(ctx context.Context) {
	c := &u.s.Config
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, apimeta.RESTScopeNamespace)
	u.ctl = NewHorizontalController(ctx, fake.NewSimpleClientset().CoreV1(), uScales{u}, u.api, mapper, u.client,
		uHPAInformer{u.hpas}, uPodInformer{u}, c.Period.D(), c.Downscale.D(), c.Tolerance, c.CPUInit.D(), c.ReadyDelay.D())
	u.ctl.eventRecorder = uRecorder{u.ctl.eventRecorder, u}
	u.ctl.queue = uQueue{u.ctl.queue, u}
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, _ ...interface{}) {
		u.failed = true
		u.said = append(u.said, fmt.Sprint(msg, ": ", err))
	}}
}

// set applies the current settings, as a restart with the same memory would.
func (u *upstream) set() {
	c := &u.config
	u.ctl.tolerance, u.ctl.downscaleStabilisationWindow = c.Tolerance, c.Downscale.D()
	u.ctl.replicaCalc.cpuInitializationPeriod, u.ctl.replicaCalc.delayOfInitialReadinessStatus = c.CPUInit.D(), c.ReadyDelay.D()
}

// live runs the scenario.
func (u *upstream) live() {
	ctx, cancel := context.WithCancel(u.ctx)
	var wg sync.WaitGroup
	u.begin(ctx)
	wg.Go(func() { u.hpas.Run(ctx.Done()) })
	synctest.Wait()
	stepwise := u.s.Stepwise()
	if !stepwise {
		wg.Go(func() { u.ctl.Run(ctx, 1) })
		synctest.Wait()
	}
	for i := range u.s.Autoscalers {
		if a := &u.s.Autoscalers[i]; !a.Idle {
			u.api.put(a.Name, a.Spec)
		}
	}
	synctest.Wait()
	acts := u.s.Timeline()
	if stepwise {
		acts = append(acts, u.s.Evaluations()...)
	}
	sort.SliceStable(acts, func(i, j int) bool { return acts[i].At < acts[j].At })
	var evaluations sync.WaitGroup
	for _, act := range acts {
		if wait := time.Until(u.world.At(act.At)); wait > 0 {
			time.Sleep(wait)
		}
		synctest.Wait()
		key := uNS + "/" + act.Autoscaler
		switch act.Kind {
		case "spec", "create":
			u.api.put(act.Autoscaler, *act.Spec)
		case "delete":
			u.api.remove(act.Autoscaler)
		case "settings":
			if *act.Config == u.config {
				break
			}
			u.config = *act.Config
			u.set()
			for i := range u.s.Autoscalers {
				if a := &u.s.Autoscalers[i]; a.Idle || u.api.get(a.Name) == nil {
				} else if stepwise {
					u.edited[a.Name] = true
				} else {
					u.ctl.queue.Add(uNS + "/" + a.Name)
				}
			}
		case "poke":
			if !stepwise {
				u.ctl.queue.Add(key)
			}
		case "evaluate", "evaluate edited":
			if act.Kind == "evaluate edited" && !u.edited[act.Autoscaler] || u.api.get(act.Autoscaler) == nil && !u.known[key] {
				break
			}
			evaluations.Go(func() { u.evaluate(ctx, key, act.Late) })
		}
		synctest.Wait()
	}
	time.Sleep(time.Until(u.world.At(u.world.End())))
	evaluations.Wait()
	synctest.Wait()
	cancel()
	if stepwise {
		u.ctl.queue.ShutDown()
	}
	wg.Wait()
	time.Sleep(time.Minute) // until all goroutines have ended
	utilruntime.ErrorHandlers = nil
}

// evaluate evaluates an autoscaler outside the queue. Other evaluations can run while its write
// waits.
func (u *upstream) evaluate(ctx context.Context, key string, late sim.Dur) {
	u.turn.Lock()
	defer u.turn.Unlock()
	u.beginKey(key)
	u.late = late
	if _, err := u.ctl.reconcileKey(ctx, key); err != nil {
		utilruntime.HandleError(err)
	}
	u.endKey(key)
}

func (u *upstream) now() sim.Dur { return u.world.Since(time.Now()) }

func (u *upstream) target(name string) *sim.Target {
	t := u.world.Targets[name]
	if t == nil {
		panic("no target " + name)
	}
	return t
}

func (u *upstream) beginKey(key string) {
	u.evaluation = &evaluation{key: key, began: u.now()}
}

// endKey records the result of the evaluation.
func (u *upstream) endKey(key string) {
	name := strings.TrimPrefix(key, uNS+"/")
	hpa := u.api.get(name)
	u.edited[name], u.known[key] = false, hpa != nil
	if hpa == nil { // it was deleted, and the controller drops its memory now
		return
	}
	l := sim.Line{A: name, T: u.began, Err: u.failed, Said: u.said}
	l.Read, l.Wrote, l.Ready = u.target(hpa.Spec.ScaleTargetRef.Name).Taken(u.began)
	s := &hpa.Status
	l.Want, l.Cur = s.DesiredReplicas, s.CurrentReplicas
	if s.LastScaleTime != nil {
		l.Last = u.world.Since(s.LastScaleTime.Time).String()
	}
	for _, c := range s.Conditions {
		l.Conditions = append(l.Conditions, fmt.Sprintf("%s=%s/%s@%s", c.Type, c.Status, c.Reason, u.world.Since(c.LastTransitionTime.Time)))
	}
	for i := range s.CurrentMetrics {
		l.Metrics = append(l.Metrics, uStatus(&s.CurrentMetrics[i]))
	}
	for _, r := range u.ctl.recommendations[key] {
		l.Recs = append(l.Recs, fmt.Sprintf("%d@%s", r.recommendation, u.world.Since(r.timestamp)))
	}
	l.Ups, l.Downs = u.changes(u.ctl.scaleUpEvents[key]), u.changes(u.ctl.scaleDownEvents[key])
	l.Events = sim.Set(u.events)
	u.lines = append(u.lines, l)
}

func (u *upstream) changes(events []timestampedScaleEvent) (all []string) {
	for _, e := range events {
		text := fmt.Sprintf("%d@%s", e.replicaChange, u.world.Since(e.timestamp))
		if e.outdated {
			text += "*"
		}
		all = append(all, text)
	}
	return all
}

func uStatus(m *autoscalingv2.MetricStatus) string {
	if m.Type == "" {
		return "-"
	}
	var v autoscalingv2.MetricValueStatus
	perReplica := false
	switch {
	case m.Resource != nil:
		v = m.Resource.Current
	case m.ContainerResource != nil:
		v = m.ContainerResource.Current
	case m.Pods != nil:
		v = m.Pods.Current
	case m.Object != nil:
		v, perReplica = m.Object.Current, m.Object.Current.AverageValue != nil
	case m.External != nil:
		v, perReplica = m.External.Current, m.External.Current.AverageValue != nil
	}
	text := string(m.Type)
	if v.AverageUtilization != nil {
		text += fmt.Sprintf(" %d%%", *v.AverageUtilization)
	}
	if v.AverageValue != nil {
		if milli := v.AverageValue.MilliValue(); perReplica && milli == math.MinInt64 {
			text += " ?" // R45: a division by zero replicas
		} else {
			text += fmt.Sprintf(" average %d", milli)
		}
	}
	if v.Value != nil {
		text += fmt.Sprintf(" value %d", v.Value.MilliValue())
	}
	return text
}

// ---- the queue ----

type uQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	u *upstream
}

func (q uQueue) Get() (string, bool) {
	key, quit := q.TypedRateLimitingInterface.Get()
	q.u.beginKey(key)
	return key, quit
}

func (q uQueue) Done(key string) {
	q.u.endKey(key)
	q.TypedRateLimitingInterface.Done(key)
}

// ---- events ----

type uRecorder struct {
	record.EventRecorder
	u *upstream
}

func (r uRecorder) Event(o runtime.Object, kind, reason, msg string) {
	r.u.events = append(r.u.events, reason)
	r.u.said = append(r.u.said, reason+": "+msg)
	r.EventRecorder.Event(o, kind, reason, msg)
}

func (r uRecorder) Eventf(o runtime.Object, kind, reason, f string, args ...interface{}) {
	r.Event(o, kind, reason, fmt.Sprintf(f, args...))
}

// ---- the API of autoscalers ----

type uAPI struct {
	u        *upstream
	mu       sync.Mutex
	version  int64
	objects  map[string]*autoscalingv2.HorizontalPodAutoscaler
	watchers []*uWatch
}

type uWatch struct {
	events chan watch.Event
	once   sync.Once
	done   chan struct{}
}

func (w *uWatch) Stop()                          { w.once.Do(func() { close(w.done) }) }
func (w *uWatch) ResultChan() <-chan watch.Event { return w.events }

func (a *uAPI) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return uClient{a: a}
}

type uClient struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	a *uAPI
}

func (c uClient) UpdateStatus(ctx context.Context, in *autoscalingv2.HorizontalPodAutoscaler, o metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	return c.a.UpdateStatus(ctx, in, o)
}

func (a *uAPI) get(name string) *autoscalingv2.HorizontalPodAutoscaler {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[name]
}

// List serves the informer.
func (a *uAPI) List(metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	list.ResourceVersion = fmt.Sprint(a.version)
	for _, o := range a.objects {
		list.Items = append(list.Items, *o.DeepCopy())
	}
	return list, nil
}

// Watch serves the informer.
func (a *uAPI) Watch(o metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &uWatch{events: make(chan watch.Event, 10000), done: make(chan struct{})}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		for _, object := range a.objects {
			w.events <- watch.Event{Type: watch.Added, Object: object.DeepCopy()}
		}
		mark := &autoscalingv2.HorizontalPodAutoscaler{}
		mark.ResourceVersion = fmt.Sprint(a.version)
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.events <- watch.Event{Type: watch.Bookmark, Object: mark}
	}
	a.watchers = append(a.watchers, w)
	return w, nil
}

func (a *uAPI) send(kind watch.EventType, o *autoscalingv2.HorizontalPodAutoscaler) {
	for _, w := range a.watchers {
		select {
		case <-w.done:
		case w.events <- watch.Event{Type: kind, Object: o.DeepCopy()}:
		}
	}
}

// put creates or edits an autoscaler as the API server does: it sets defaults, and increments the
// generation if the spec differs.
func (a *uAPI) put(name string, spec sim.Spec) {
	next := uHPA(name, spec)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	next.ResourceVersion = fmt.Sprint(a.version)
	before := a.objects[name]
	if before == nil {
		next.UID = types.UID(fmt.Sprint("uid-", a.version))
		next.Generation = 1
		a.u.edited[name] = true
		a.objects[name] = next
		a.send(watch.Added, next)
		return
	}
	next.UID, next.Status, next.Generation = before.UID, before.Status, before.Generation
	if !apiequality.Semantic.DeepEqual(before.Spec, next.Spec) {
		next.Generation++
		a.u.edited[name] = true
	}
	a.objects[name] = next
	a.send(watch.Modified, next)
}

func (a *uAPI) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	before := a.objects[name].DeepCopy()
	before.ResourceVersion = fmt.Sprint(a.version)
	delete(a.objects, name)
	a.send(watch.Deleted, before)
}

// UpdateStatus writes a status as the API server does.
func (a *uAPI) UpdateStatus(_ context.Context, in *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.objects[in.Name]
	switch {
	case before == nil || before.UID != in.UID:
		return nil, k8serrors.NewNotFound(autoscalingv2.Resource("horizontalpodautoscalers"), in.Name)
	case before.ResourceVersion != in.ResourceVersion:
		a.u.t.Errorf("%s: a status was written on an old version", a.u.s.Name)
		return nil, k8serrors.NewConflict(autoscalingv2.Resource("horizontalpodautoscalers"), in.Name, errors.New("old version"))
	}
	a.version++
	next := before.DeepCopy()
	next.Status = *in.Status.DeepCopy()
	next.ResourceVersion = fmt.Sprint(a.version)
	a.objects[in.Name] = next
	a.send(watch.Modified, next)
	return next.DeepCopy(), nil
}

type uHPAInformer struct{ informer cache.SharedIndexInformer }

func (i uHPAInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i uHPAInformer) Lister() autoscalinglisters.HorizontalPodAutoscalerLister {
	return autoscalinglisters.NewHorizontalPodAutoscalerLister(i.informer.GetIndexer())
}

// ---- pods ----

type uPodInformer struct{ u *upstream }

type uSynced struct{ cache.SharedIndexInformer }

func (uSynced) HasSynced() bool { return true }

func (i uPodInformer) Informer() cache.SharedIndexInformer { return uSynced{} }
func (i uPodInformer) Lister() corelisters.PodLister       { return uPods{u: i.u} }

type uPods struct {
	corelisters.PodLister
	u *upstream
}

func (p uPods) Pods(string) corelisters.PodNamespaceLister { return uPodsOf{u: p.u} }

type uPodsOf struct {
	corelisters.PodNamespaceLister
	u *upstream
}

func (p uPodsOf) List(selector labels.Selector) ([]*v1.Pod, error) {
	u, now := p.u, p.u.now()
	name, f := u.selected(selector)
	var pods []*v1.Pod
	for _, in := range u.target(name).Instances(now) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: uNS, Name: in.ID, Labels: map[string]string{"app": name}}}
		pod.Status.Phase = v1.PodPhase(in.Phase)
		if in.HasStarted {
			pod.Status.StartTime = u.mtime(u.dated(in.ID, in.Started))
		}
		if in.Ready != "" {
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionStatus(in.Ready), LastTransitionTime: *u.mtime(u.dated(in.ID, in.ReadySince))}}
		}
		if in.Deleting {
			pod.DeletionTimestamp = u.mtime(now)
		}
		if f.Whole != nil {
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: uList(f.Whole)}
		}
		for _, task := range f.Tasks {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: task.Name, Resources: v1.ResourceRequirements{Requests: uList(task.Requests)}})
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func uList(milli map[string]int64) v1.ResourceList {
	if milli == nil {
		return nil
	}
	list := v1.ResourceList{}
	for name, n := range milli {
		list[v1.ResourceName(name)] = uQuantity(fmt.Sprintf("%dm", n))
	}
	return list
}

// uQuantity returns a quantity in the canonical form of the API.
func uQuantity(s string) resource.Quantity {
	q := resource.MustParse(s)
	return resource.MustParse(q.String())
}

func (u *upstream) mtime(d sim.Dur) *metav1.Time {
	t := metav1.NewTime(u.world.At(d))
	return &t
}

// dated returns a time of an instance as hpad derives it from the wall clock when it first reads it.
func (u *upstream) dated(id string, at sim.Dur) sim.Dur {
	now := u.now()
	key := date{u.s.Run(now), id, at}
	apparent, known := u.dates[key]
	if !known {
		apparent = u.s.Apparent(at, now)
		u.dates[key] = apparent
	}
	return apparent
}

// selected returns the target that a selector matches.
func (u *upstream) selected(selector labels.Selector) (string, *sim.Fleet) {
	name := strings.TrimPrefix(selector.String(), "app=")
	for i := range u.s.Autoscalers {
		if a := &u.s.Autoscalers[i]; a.Name == name {
			return name, &a.Fleet
		}
	}
	panic("selector " + selector.String())
}

// ---- scales ----

type uScales struct{ u *upstream }

func (s uScales) Scales(string) scaleclient.ScaleInterface { return uScale{u: s.u} }

type uScale struct {
	scaleclient.ScaleInterface
	u *upstream
}

func (s uScale) Get(_ context.Context, _ schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	r, _, err := s.u.target(name).Read(s.u.now())
	if err != nil {
		return nil, err
	}
	for _, in := range s.u.target(name).Instances(s.u.now()) { // hpad reads all instances now
		s.u.dated(in.ID, in.Started)
		s.u.dated(in.ID, in.ReadySince)
	}
	sc := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: uNS, Name: name, ResourceVersion: fmt.Sprint(r.Version)}}
	sc.Spec.Replicas, sc.Status.Replicas, sc.Status.Selector = r.Replicas, r.Status, "app="+name
	return sc, nil
}

func (s uScale) Update(_ context.Context, _ schema.GroupResource, sc *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	version := 0
	if _, err := fmt.Sscan(sc.ResourceVersion, &version); err != nil {
		panic(err)
	}
	if current := s.u.evaluation; current.late > 0 {
		s.u.turn.Unlock()
		time.Sleep(current.late.D())
		s.u.turn.Lock()
		s.u.evaluation = current
	}
	target := s.u.target(sc.Name)
	err := target.Scale(s.u.now(), sc.Spec.Replicas, version, target.Delay(s.u.now()))
	if errors.Is(err, sim.ErrConflict) {
		return nil, k8serrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, sc.Name, err)
	}
	return sc, err
}

// ---- autoscalers ----

func uHPA(name string, s sim.Spec) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: uNS, Name: name}}
	if s.Target != "" {
		name = s.Target
	}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = s.Min, s.Max
	for _, m := range s.Metrics {
		h.Spec.Metrics = append(h.Spec.Metrics, uMetric(name, m))
	}
	if b := s.Behavior; b != nil {
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: uRules(b.Up), ScaleDown: uRules(b.Down)}
	}
	h = h.DeepCopy()
	v2defaults.SetDefaults_HorizontalPodAutoscaler(h)
	return h
}

func uRules(r *sim.Rules) *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.Window}
	if r.Select != "" {
		out.SelectPolicy = new(autoscalingv2.ScalingPolicySelect(r.Select))
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy{
			Type: autoscalingv2.HPAScalingPolicyType(p.Type), Value: p.Value, PeriodSeconds: p.Period,
		})
	}
	if r.Tolerance != "" {
		out.Tolerance = new(uQuantity(r.Tolerance))
	}
	return out
}

func uMetric(owner string, m sim.Metric) autoscalingv2.MetricSpec {
	var t autoscalingv2.MetricTarget
	switch m.Goal {
	case "utilization":
		t.Type, t.AverageUtilization = autoscalingv2.UtilizationMetricType, new(m.Percent)
	case "average":
		t.Type, t.AverageValue = autoscalingv2.AverageValueMetricType, new(uQuantity(m.Amount))
	case "value":
		t.Type, t.Value = autoscalingv2.ValueMetricType, new(uQuantity(m.Amount))
	}
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(m.Type)}
	switch m.Type {
	case "Resource":
		out.Resource = &autoscalingv2.ResourceMetricSource{Name: v1.ResourceName(m.Name), Target: t}
	case "ContainerResource":
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: v1.ResourceName(m.Name), Container: m.Task, Target: t}
	case "Pods":
		out.Pods = &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: m.Name}, Target: t}
	case "Object":
		out.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: owner},
			Metric:          autoscalingv2.MetricIdentifier{Name: m.Name}, Target: t,
		}
	case "External": // the name has to identify the owner
		out.External = &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: owner + "." + m.Name}, Target: t}
	default:
		panic("metric type " + m.Type)
	}
	return out
}

// ---- metrics ----

// uMetrics records the requested metric and calls the real client.
type uMetrics struct {
	metricsclient.MetricsClient
	u *upstream
}

func (c uMetrics) GetResourceMetric(ctx context.Context, res v1.ResourceName, ns string, sel labels.Selector, container string) (metricsclient.PodMetricsInfo, time.Time, error) {
	c.u.metric = string(res) + "/" + container
	return c.MetricsClient.GetResourceMetric(ctx, res, ns, sel, container)
}

// find returns the requested metric of an autoscaler.
func (u *upstream) find(owner string, is func(m *sim.Metric) bool) (*sim.Target, int, *sim.Metric) {
	t := u.target(owner)
	metrics := t.Metrics(u.now())
	for i := range metrics {
		if is(&metrics[i]) {
			return t, i, &metrics[i]
		}
	}
	panic("no such metric of " + owner)
}

// values returns the series of a metric, converted as prometheus-adapter does.
func (u *upstream) values(t *sim.Target, i int) ([]sim.Value, error) {
	values, err := t.Values(u.now(), i)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			return nil, errors.New("not a number") // hpad rejects it, and prometheus-adapter returns 0
		}
		if sim.AdapterMilli(v.Value) < 0 && !u.s.Strict {
			return nil, errors.New("negative") // a deviation of hpad, see docs/algorithm.md
		}
	}
	return values, nil
}

type uResource struct{ u *upstream }

func (r uResource) PodMetricses(string) resourceclient.PodMetricsInterface {
	return uPodMetrics{u: r.u}
}

type uPodMetrics struct {
	resourceclient.PodMetricsInterface
	u *upstream
}

func (p uPodMetrics) List(_ context.Context, o metav1.ListOptions) (*metricsapi.PodMetricsList, error) {
	u := p.u
	owner := strings.TrimPrefix(o.LabelSelector, "app=")
	res, container, _ := strings.Cut(u.metric, "/")
	t, i, m := u.find(owner, func(m *sim.Metric) bool {
		return m.Name == res && (m.Type == "Resource" && container == "" || m.Type == "ContainerResource" && m.Task == container)
	})
	list := &metricsapi.PodMetricsList{}
	add := func(id string, at time.Time, window time.Duration, tasks map[string]map[string]int64) {
		pm := metricsapi.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: uNS, Name: id}, Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: window}}
		for task, usage := range tasks {
			cm := metricsapi.ContainerMetrics{Name: task, Usage: v1.ResourceList{"other": resource.MustParse("1")}}
			for name, milli := range usage {
				cm.Usage[v1.ResourceName(name)] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
			}
			pm.Containers = append(pm.Containers, cm)
		}
		list.Items = append(list.Items, pm)
	}
	if m.Sampled() {
		if t.SamplesFail(u.now()) {
			return nil, sim.ErrMetric
		}
		for _, s := range t.Samples(u.now()) {
			sum := int64(0)
			for task, usage := range s.Tasks {
				if container == "" || container == task {
					sum += usage[m.Name]
				}
			}
			if sum < 0 && !u.s.Strict {
				return nil, errors.New("negative")
			}
			add(s.ID, u.world.At(u.s.Apparent(s.At, u.now())), s.Window.D(), s.Tasks)
		}
		return list, nil
	}
	values, err := u.values(t, i)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		task := container
		if task == "" {
			task = "all"
		}
		add(v.ID, time.Now(), m.Window.D(), map[string]map[string]int64{task: {m.Name: sim.AdapterMilli(v.Value)}})
	}
	return list, nil
}

type uCustom struct{ u *upstream }

func (c uCustom) RootScopedMetrics() customclient.MetricsInterface { return uCustomMetrics{c.u} }
func (c uCustom) NamespacedMetrics(string) customclient.MetricsInterface {
	return uCustomMetrics{c.u}
}

type uCustomMetrics struct{ u *upstream }

func (c uCustomMetrics) GetForObject(_ schema.GroupKind, owner, metric string, _ labels.Selector) (*cmapi.MetricValue, error) {
	t, i, _ := c.u.find(owner, func(m *sim.Metric) bool { return m.Type == "Object" && m.Name == metric })
	values, err := c.u.values(t, i)
	if err == nil && len(values) != 1 {
		err = errors.New("no such object")
	}
	if err != nil {
		return nil, err
	}
	return &cmapi.MetricValue{Value: *resource.NewMilliQuantity(sim.AdapterMilli(values[0].Value), resource.DecimalSI), Timestamp: metav1.Now()}, nil
}

func (c uCustomMetrics) GetForObjects(_ schema.GroupKind, sel labels.Selector, metric string, _ labels.Selector) (*cmapi.MetricValueList, error) {
	owner := strings.TrimPrefix(sel.String(), "app=")
	t, i, _ := c.u.find(owner, func(m *sim.Metric) bool { return m.Type == "Pods" && m.Name == metric })
	values, err := c.u.values(t, i)
	if err != nil {
		return nil, err
	}
	list := &cmapi.MetricValueList{}
	for _, v := range values {
		list.Items = append(list.Items, cmapi.MetricValue{
			DescribedObject: v1.ObjectReference{Namespace: uNS, Name: v.ID}, Timestamp: metav1.Now(),
			Value: *resource.NewMilliQuantity(sim.AdapterMilli(v.Value), resource.DecimalSI),
		})
	}
	return list, nil
}

type uExternal struct{ u *upstream }

func (e uExternal) NamespacedMetrics(string) externalclient.MetricsInterface {
	return uExternalMetrics(e)
}

type uExternalMetrics struct{ u *upstream }

func (e uExternalMetrics) List(metric string, _ labels.Selector) (*emapi.ExternalMetricValueList, error) {
	owner, name, _ := strings.Cut(metric, ".")
	t, i, _ := e.u.find(owner, func(m *sim.Metric) bool { return m.Type == "External" && m.Name == name })
	values, err := e.u.values(t, i)
	if err != nil {
		return nil, err
	}
	list := &emapi.ExternalMetricValueList{}
	for _, v := range values {
		list.Items = append(list.Items, emapi.ExternalMetricValue{MetricName: metric, Timestamp: metav1.Now(), Value: *resource.NewMilliQuantity(sim.AdapterMilli(v.Value), resource.DecimalSI)})
	}
	return list, nil
}
