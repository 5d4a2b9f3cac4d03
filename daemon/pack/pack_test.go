package pack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/policy"
)

type all struct {
	Bool   bool
	Int    int32
	Uint   uint8
	Float  float64
	Text   string
	Time   time.Time
	Nested struct{ A, B int64 }
	Number *int32
	Empty  *struct{ A uint8 }
	List   []policy.Amount
	Long   int
	Hidden int `json:"-"`
	not    int
}

// fill sets everything that is packed at random, or leaves it out.
func fill(random *rand.Rand, v reflect.Value) {
	if random.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(random.Int64() >> (64 - v.Type().Bits()))
	case reflect.Uint8:
		v.SetUint(random.Uint64() & 0xff)
	case reflect.Float64:
		v.SetFloat(random.NormFloat64())
	case reflect.String:
		v.SetString(strings.Repeat(fmt.Sprint(random.IntN(3000)), random.IntN(60)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(random, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(4), 4))
		for i := range v.Len() {
			fill(random, v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == timeType {
			zones := []*time.Location{time.UTC, time.Local, time.FixedZone("", 7200)}
			v.Set(reflect.ValueOf(time.Unix(random.Int64N(1<<34), random.Int64N(1e9)).In(zones[random.IntN(len(zones))])))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(random, v.Field(i))
			}
		}
	default:
		panic(v.Kind())
	}
}

func testForm[T any](t *testing.T, form *Form[T]) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var before T
		fill(random, reflect.ValueOf(&before).Elem())
		packed := form.Append(nil, &before)
		after, err := form.Read(packed)
		if diff := cmp.Diff(before, after, cmpopts.IgnoreUnexported(all{}, policy.Decision{})); err != nil || diff != "" {
			t.Fatalf("%v: %d bytes, (-before +after):\n%s", err, len(packed), diff)
		}
	}
}

func TestForms(t *testing.T) {
	t.Run("all kinds", func(t *testing.T) { testForm(t, Stored[all]()) })
	t.Run("all kinds in memory", func(t *testing.T) { testForm(t, InMemory[all]()) })
	t.Run("decision in memory", func(t *testing.T) { testForm(t, InMemory[policy.Decision]()) })
}

func TestHiddenFieldsAreLeftOut(t *testing.T) {
	form := Stored[all]()
	after, err := form.Read(form.Append(nil, &all{Text: "a", Hidden: 1, not: 1}))
	if err != nil || after.Text != "a" || after.Hidden != 0 || after.not != 0 {
		t.Errorf("got %+v, %v, want the text alone", after, err)
	}
}

func TestUnknownWord(t *testing.T) {
	form := InMemory[string]()
	if text, err := form.Read([]byte{0xfe, 0x7f}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a number of no word is %q, %v", text, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	count, ratio, value := int32(3), 1.0, int64(3000)
	metric := policy.MetricResult{
		Type: policy.ExternalMetric, Name: "queue", Goal: policy.AverageValueTarget, GoalValue: 1000,
		Current: policy.MetricStatus{Type: policy.ExternalMetric, Name: "queue", AverageValueMilli: &value},
		Ratio:   &ratio, ToleranceDown: 0.1, ToleranceUp: 0.1, Within: true, Proposal: 3, Rule: "R43",
	}
	decision := policy.Decision{
		Time: time.Unix(1700000000, 0).UTC(), Case: policy.CaseMetrics, CurrentReplicas: 3, StatusReplicas: 3, MinReplicas: 1, MaxReplicas: 10,
		Metrics: []policy.MetricResult{metric, metric}, Raw: &count, Winner: new(int), Recommendation: &count,
		Stabilization: &policy.Stabilization{DownWindow: 5 * time.Minute, Replicas: 3, Reason: "ReadyForNewScale"},
		Limit:         &policy.Limit{Allowed: 3, Replicas: 3, Reason: "DesiredWithinRange"}, DesiredReplicas: 3, Message: "no change",
	}
	form := InMemory[policy.Decision]()
	packed := form.Append(nil, &decision)
	b.ReportAllocs()
	b.ReportMetric(float64(len(packed)), "bytes")
	for b.Loop() {
		packed = form.Append(packed[:0], &decision)
	}
	b.ReportMetric(float64(len(packed)), "bytes")
}
