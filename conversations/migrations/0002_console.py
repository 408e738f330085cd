from django.contrib.postgres.indexes import BrinIndex
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0001_initial'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='conversation',
            options={'permissions': (('export_conversation', 'Can export conversations'),)},
        ),
        # Not concurrently, although appends wait while it is built: no version was released without it.
        migrations.AddIndex(
            model_name='item',
            index=BrinIndex(models.F('recorded_at'), autosummarize=True, name='item_by_time'),
        ),
    ]
