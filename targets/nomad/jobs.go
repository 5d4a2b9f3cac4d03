package nomad

import (
	"bytes"
	"context"
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"
)

// stamp is what moves when something happens to a job. It is compared and not ordered:
// a cluster that was restored from a backup goes back.
type stamp struct {
	// created, modified and specified are the indexes of the job, the last one of its
	// specification; summary is that of how many allocations it has in which state.
	created, modified, specified, summary uint64
}

// jobStub is what is needed of a job in a list.
type jobStub struct {
	stamp
	// submitted is when it was submitted, in nanoseconds.
	submitted int64
	stopped   bool
	// dead means that nothing of it runs or is about to; complete that it has complete
	// allocations, which may be of an older version.
	dead, complete bool
	// queued is how many allocations wait for a place, by group; nil for none.
	queued map[string]int
}

// jobReader reads jobs in a list, one after the other into the same memory: there may
// be a hundred thousand, few of which moved.
type jobReader struct {
	*jsontext.Decoder
	// id and namespace are valid until the next job, group until the next group.
	id, namespace, group []byte
	stub                 jobStub
	// present is how many allocations the job has.
	present int
}

// next reads one job.
func (r *jobReader) next() error {
	r.id, r.namespace, r.stub, r.present = r.id[:0], r.namespace[:0], jobStub{}, 0
	return eachMember(r.Decoder, func(name []byte) (err error) {
		switch string(name) {
		case "ID":
			r.id, err = appendText(r.id, r.Decoder)
		case "Namespace":
			r.namespace, err = appendText(r.namespace, r.Decoder)
		case "Stop":
			r.stub.stopped, err = r.isTrue()
		case "Status":
			var status []byte
			status, err = appendText(nil, r.Decoder)
			r.stub.dead = string(status) == "dead"
		case "CreateIndex":
			r.stub.created, err = number(r.Decoder)
		case "ModifyIndex":
			r.stub.modified, err = number(r.Decoder)
		case "JobModifyIndex":
			r.stub.specified, err = number(r.Decoder)
		case "SubmitTime":
			var at uint64
			at, err = number(r.Decoder)
			r.stub.submitted = int64(at)
		case "JobSummary":
			err = eachMember(r.Decoder, r.summary)
		default:
			err = r.SkipValue()
		}
		return err
	})
}

func (r *jobReader) isTrue() (bool, error) {
	token, err := r.ReadToken()
	return err == nil && token.Kind() == 't', err
}

// summary reads a member of a job's summary.
func (r *jobReader) summary(name []byte) (err error) {
	switch string(name) {
	case "ModifyIndex":
		r.stub.summary, err = number(r.Decoder)
	case "Summary":
		err = eachMember(r.Decoder, func(group []byte) error {
			r.group = append(r.group[:0], group...)
			return eachMember(r.Decoder, r.count)
		})
	default:
		err = r.SkipValue()
	}
	return err
}

// count reads how many allocations of a group are in a state.
func (r *jobReader) count(state []byte) error {
	switch string(state) {
	case "Queued":
		n, err := number(r.Decoder)
		if n > 0 {
			if r.stub.queued == nil {
				r.stub.queued = map[string]int{}
			}
			r.stub.queued[string(r.group)] = int(n)
		}
		return err
	case "Complete":
		n, err := number(r.Decoder)
		r.stub.complete = r.stub.complete || n > 0
		return err
	case "Starting", "Running", "Unknown":
		n, err := number(r.Decoder)
		r.present += int(n)
		return err
	}
	return r.SkipValue()
}

// readJobs reads the list of jobs of a filter, each by a function, which is to copy the
// texts that it keeps.
func (s *session) readJobs(ctx context.Context, at scope, filter string, take func(job *jobReader)) (reply, error) {
	r := new(jobReader)
	return s.stream(ctx, at, "/v1/jobs", nil, filter, func(decoder *jsontext.Decoder) error {
		r.Decoder = decoder
		err := r.next()
		if err == nil {
			take(r)
		}
		return err
	})
}

// listing is a list of jobs as it was read last. It is not modified.
type listing struct {
	jobs []listedJob
	// stubs are those of the roster's jobs.
	stubs []jobStub
}

// listedJob is a job in a list.
type listedJob struct {
	// id and text are hashes of its id, and of all that the list says of it: as long as
	// that stays, so does what was read from it.
	id, text uint64
	// number is its place in the roster; negative where it is not in use.
	number int32
	// present is how many allocations it has.
	present int32
}

// hashSeed is such that nobody can have two texts have the same hash.
var hashSeed = maphash.MakeSeed()

// ahead is how many jobs a relisting looks over that are gone or are not as they were. With
// more of them in a row the rest of the list is decoded.
const ahead = 64

// relisting reads a list of jobs of a roster once more, and decodes those that changed. All
// lists have them in the same order.
type relisting struct {
	roster *roster
	// before is what was read last, and left are those of its jobs that are still to come.
	before, now listing
	left        []listedJob
	reader      jobReader
}

func (r *roster) relist() *relisting {
	l := &relisting{roster: r}
	if before := r.listed.Load(); before != nil {
		l.before, l.left = *before, before.jobs
	}
	l.now = listing{jobs: make([]listedJob, 0, len(l.left)+ahead), stubs: make([]jobStub, len(r.jobs))}
	l.reader.Decoder = new(jsontext.Decoder)
	return l
}

// next reads one job. The stub is of a job that is in use.
func (l *relisting) next(d *jsontext.Decoder) (listedJob, *jobStub, error) {
	text, err := d.ReadValue()
	if err != nil {
		return listedJob{}, nil, err
	}
	hash := maphash.Bytes(hashSeed, text)
	if l.skip(func(job *listedJob) bool { return job.text == hash }) {
		job := l.left[0]
		if job.number >= 0 {
			l.now.stubs[job.number] = l.before.stubs[job.number]
		}
		return l.put(job, true)
	}
	reader := &l.reader
	reader.Reset(bytes.NewBuffer(text), lenient...)
	if err := reader.next(); err != nil {
		return listedJob{}, nil, err
	}
	job := listedJob{id: maphash.Bytes(hashSeed, reader.id), text: hash, number: -1, present: int32(reader.present)}
	if number, inUse := l.roster.numbers[string(reader.id)]; inUse {
		job.number = int32(number)
		l.now.stubs[number] = reader.stub
	}
	return l.put(job, l.skip(func(before *listedJob) bool { return before.id == job.id }))
}

// put adds a job. Known means that it is the next of those that are left.
func (l *relisting) put(job listedJob, known bool) (listedJob, *jobStub, error) {
	if known {
		l.left = l.left[1:]
	}
	l.now.jobs = append(l.now.jobs, job)
	if job.number < 0 {
		return job, nil, nil
	}
	return job, &l.now.stubs[job.number], nil
}

// skip goes on to the next job for which is is true; false where that is too far.
func (l *relisting) skip(is func(*listedJob) bool) bool {
	for i := range l.left[:min(ahead, len(l.left))] {
		if is(&l.left[i]) {
			l.left = l.left[i:]
			return true
		}
	}
	return false
}

// end keeps what was read for the next list; of one that was cut off, only where there was
// none before it.
func (l *relisting) end(err error) {
	if err == nil || len(l.before.jobs) == 0 {
		now := l.now // by itself, for the list before to go
		l.roster.listed.Store(&now)
	}
}
