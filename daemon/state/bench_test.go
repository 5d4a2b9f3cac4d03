package state

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func someRecords(count int) map[string]Record {
	records := make(map[string]Record, count)
	for i := range count {
		records[fmt.Sprintf("checkout-%06d", i)] = sampleRecord(i)
	}
	return records
}

func BenchmarkCommit(b *testing.B) {
	for _, count := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("%d records", count), func(b *testing.B) {
			s := open(b, b.TempDir())
			defer closeStore(b, s)
			changes := Changes{Records: someRecords(count), LastRound: epoch}
			commit(b, s, changes)
			b.ReportAllocs()
			for b.Loop() {
				commit(b, s, changes)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, count := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("%d records", count), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, dir)
			commit(b, s, Changes{Records: someRecords(count), LastRound: epoch.Add(time.Hour)})
			sealed, err := sealRecord("a", sampleRecord(1))
			if err != nil {
				b.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, "state.db"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if got := load(b, s); len(got.Autoscalers) != count {
					b.Fatalf("%d records", len(got.Autoscalers))
				}
			}
			b.ReportMetric(float64(len(sealed)), "bytes/record")
			b.ReportMetric(float64(info.Size())/float64(count), "file-bytes/record")
			closeStore(b, s)
			started := time.Now()
			s = open(b, dir)
			b.ReportMetric(time.Since(started).Seconds()*1000, "ms-to-open")
			closeStore(b, s)
		})
	}
}
